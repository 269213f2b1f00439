//! Derivatives: each a kernel of its own. Inputs are saved through the checkpointer.

use burn::backend::autodiff::{
    NodeId,
    checkpoint::{
        base::Checkpointer, retro_forward::RetroForward, state::BackwardStates,
        strategy::CheckpointStrategy,
    },
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, unary},
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend};
use burn::tensor::FloatDType;
use core::fmt::Debug;
use core::marker::PhantomData;

use super::attention::{self, SavedAttention};
use super::{AdamWStep, FusedOps};

/// The weights and the scale.
#[derive(Debug)]
struct CausalSoftmax;

impl<B: FusedOps> Backward<B, 1> for CausalSoftmax {
    type State = (FloatTensor<B>, f32);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let (weights, scale) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::causal_softmax_backward(weights, grad, scale)
        });
    }
}

#[derive(Debug)]
struct CausalAttention;

impl<B: FusedOps> Backward<B, 1> for CausalAttention {
    type State = SavedAttention<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let saved = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            attention::backward::<B>(saved, grad)
        });
    }
}

#[derive(Debug)]
struct GeluTanh;

impl<B: FusedOps> Backward<B, 1> for GeluTanh {
    type State = NodeId;

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let x = checkpointer.retrieve_node_output(ops.state);
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::gelu_tanh_backward(x, grad)
        });
    }
}

#[derive(Debug)]
struct RetroGelu<B> {
    x: NodeId,
    backend: PhantomData<B>,
}

impl<B: FusedOps> RetroForward for RetroGelu<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let x = states.get_state::<FloatTensor<B>>(&self.x);
        states.save(out_node, B::gelu_tanh(x));
    }
}

#[derive(Debug)]
struct NormRows;

/// What the backward pass of a layer norm needs.
#[derive(Debug, Clone, Copy)]
struct SavedNorm {
    x: NodeId,
    gamma: NodeId,
    epsilon: f32,
}

impl<B: FusedOps> Backward<B, 3> for NormRows {
    type State = SavedNorm;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let SavedNorm { x, gamma, epsilon } = ops.state;
        let x: FloatTensor<B> = checkpointer.retrieve_node_output(x);
        let gamma: FloatTensor<B> = checkpointer.retrieve_node_output(gamma);
        let grad = grads.consume::<B>(&ops.node);
        let (x, gamma, beta) = B::norm_rows_backward(x, gamma, grad, epsilon);
        for (node, grad) in ops.parents.into_iter().zip([x, gamma, beta]) {
            if let Some(node) = node {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}

#[derive(Debug)]
struct RetroNorm<B> {
    inputs: [NodeId; 3],
    epsilon: f32,
    dtype: FloatDType,
    backend: PhantomData<B>,
}

impl<B: FusedOps> RetroForward for RetroNorm<B> {
    fn forward(&self, states: &mut BackwardStates, out_node: NodeId) {
        let [x, gamma, beta] = self
            .inputs
            .map(|input| states.get_state::<FloatTensor<B>>(&input));
        let output = B::norm_rows(x, gamma, beta, self.epsilon, self.dtype);
        states.save(out_node, output);
    }
}

#[derive(Debug)]
struct TokenLosses;

impl<B: FusedOps> Backward<B, 1> for TokenLosses {
    type State = (NodeId, IntTensor<B>, usize);

    fn backward(
        self,
        ops: Ops<Self::State, 1>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let (logits, targets, vocabulary) = ops.state;
        let logits = checkpointer.retrieve_node_output(logits);
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::token_losses_backward(logits, targets, grad, vocabulary)
        });
    }
}

impl<B: FusedOps, C: CheckpointStrategy> FusedOps for Autodiff<B, C> {
    fn causal_softmax(scores: FloatTensor<Self>, scale: f32) -> FloatTensor<Self> {
        let prep = CausalSoftmax
            .prepare::<C>([scores.node()])
            .compute_bound()
            .stateful();
        let weights = B::causal_softmax(scores.into_primitive(), scale);
        match prep {
            OpsKind::Tracked(prep) => prep.finish((weights.clone(), scale), weights),
            OpsKind::UnTracked(prep) => prep.finish(weights),
        }
    }

    fn causal_softmax_backward(
        weights: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self> {
        let (weights, grad) = (weights.into_primitive(), grad.into_primitive());
        Self::from_inner(B::causal_softmax_backward(weights, grad, scale))
    }

    fn causal_attention(qkv: FloatTensor<Self>, heads: usize, scale: f32) -> FloatTensor<Self> {
        let prep = CausalAttention
            .prepare::<C>([qkv.node()])
            .compute_bound()
            .stateful();
        let (mixed, saved) = attention::forward::<B>(qkv.into_primitive(), heads, scale);
        match prep {
            OpsKind::Tracked(prep) => prep.finish(saved, mixed),
            OpsKind::UnTracked(prep) => prep.finish(mixed),
        }
    }

    fn gelu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self> {
        let retro = RetroGelu::<B> {
            x: x.node().id(),
            backend: PhantomData,
        };
        let prep = GeluTanh
            .prepare::<C>([x.node()])
            .memory_bound()
            .retro_forward(retro)
            .parents([&x])
            .stateful();
        match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = prep.checkpoint(&x);
                prep.finish(saved, B::gelu_tanh(x.into_primitive()))
            }
            OpsKind::UnTracked(prep) => prep.finish(B::gelu_tanh(x.into_primitive())),
        }
    }

    fn gelu_tanh_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let (x, grad) = (x.into_primitive(), grad.into_primitive());
        Self::from_inner(B::gelu_tanh_backward(x, grad))
    }

    fn norm_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let nodes = [x.node(), gamma.node(), beta.node()];
        let retro = RetroNorm::<B> {
            inputs: [nodes[0].id(), nodes[1].id(), nodes[2].id()],
            epsilon,
            dtype,
            backend: PhantomData,
        };
        let prep = NormRows
            .prepare::<C>(nodes)
            .memory_bound()
            .retro_forward(retro)
            .parents([&x, &gamma, &beta])
            .stateful();
        let forward = |x: FloatTensor<Self>, gamma: FloatTensor<Self>, beta: FloatTensor<Self>| {
            let (x, gamma) = (x.into_primitive(), gamma.into_primitive());
            B::norm_rows(x, gamma, beta.into_primitive(), epsilon, dtype)
        };
        match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = SavedNorm {
                    x: prep.checkpoint(&x),
                    gamma: prep.checkpoint(&gamma),
                    epsilon,
                };
                prep.finish(saved, forward(x, gamma, beta))
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(x, gamma, beta)),
        }
    }

    fn norm_rows_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (x, gamma) = (x.into_primitive(), gamma.into_primitive());
        let (x, gamma, beta) = B::norm_rows_backward(x, gamma, grad.into_primitive(), epsilon);
        (
            Self::from_inner(x),
            Self::from_inner(gamma),
            Self::from_inner(beta),
        )
    }

    fn token_losses(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let prep = TokenLosses
            .prepare::<C>([logits.node()])
            .compute_bound()
            .stateful();
        match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = (prep.checkpoint(&logits), targets.clone(), vocabulary);
                let losses = B::token_losses(logits.into_primitive(), targets, vocabulary);
                prep.finish(saved, losses)
            }
            OpsKind::UnTracked(prep) => prep.finish(B::token_losses(
                logits.into_primitive(),
                targets,
                vocabulary,
            )),
        }
    }

    fn token_losses_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let (logits, grad) = (logits.into_primitive(), grad.into_primitive());
        Self::from_inner(B::token_losses_backward(logits, targets, grad, vocabulary))
    }

    fn adamw_step(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (weight, grad) = (weight.into_primitive(), grad.into_primitive());
        let (first, second) = (first.into_primitive(), second.into_primitive());
        let (weight, first, second) = B::adamw_step(weight, grad, first, second, step);
        (
            Self::from_inner(weight),
            Self::from_inner(first),
            Self::from_inner(second),
        )
    }

    fn project_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (x, weight) = (x.into_primitive(), weight.into_primitive());
        Self::from_inner(B::project_rows(x, weight, bias.into_primitive()))
    }

    fn compare_rows(x: FloatTensor<Self>, table: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::from_inner(B::compare_rows(x.into_primitive(), table.into_primitive()))
    }

    fn attend(
        query: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        place: IntTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self> {
        let (query, cache) = (query.into_primitive(), cache.into_primitive());
        Self::from_inner(B::attend(query, cache, place, scale))
    }
}
