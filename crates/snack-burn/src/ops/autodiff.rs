//! Derivatives of the three products, each made of the other two, and of the dense product.
//!
//! With `Y = X W^T` and the output gradient `G`: the gradient of the values is the sampled
//! product of `G` and `X` (`nnz` numbers, never an `m x k` matrix; SNACK, section 3.4), the
//! gradient of `X` is the transposed product of `G`. Operands are saved through the
//! checkpointer, and only those that a tracked parent needs.

use burn::backend::autodiff::{
    NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind, binary},
};
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Autodiff, AutodiffBackend, Backend, TensorMetadata};

use super::{GradientPanel, Index, Routines, SparseOps};
use crate::tap;

/// What a backward pass needs: an operand is saved only if the other one is tracked.
#[derive(Clone, Debug)]
struct Saved<B: Backend> {
    lhs: Option<NodeId>,
    rhs: Option<NodeId>,
    index: Index<B>,
    routines: Routines,
}

const SAVED: &str = "an operand is saved whenever the other one is tracked";

/// The gradients of both operands of a product, given its output gradient.
trait Product: core::fmt::Debug + Send + 'static {
    fn forward<B: SparseOps>(
        lhs: FloatTensor<B>,
        rhs: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B>;

    fn grad_lhs<B: SparseOps>(
        grad: FloatTensor<B>,
        rhs: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B>;

    fn grad_rhs<B: SparseOps>(
        grad: FloatTensor<B>,
        lhs: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B>;

    /// Offers the factors of the dense gradient of the left operand, whose node is `lhs`, if that
    /// is a weight.
    fn offer<B: SparseOps>(lhs: NodeId, grad: &FloatTensor<B>, rhs: &FloatTensor<B>);
}

/// `Y = X W^T`, operands: values, `X`.
#[derive(Debug)]
struct Spmm;

impl Product for Spmm {
    fn forward<B: SparseOps>(
        values: FloatTensor<B>,
        x: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::spmm(values, index, x, routines)
    }

    fn grad_lhs<B: SparseOps>(
        grad: FloatTensor<B>,
        x: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::sddmm(grad, x, index, routines)
    }

    fn grad_rhs<B: SparseOps>(
        grad: FloatTensor<B>,
        values: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::spmm_transposed(values, index, grad, routines)
    }

    fn offer<B: SparseOps>(values: NodeId, grad: &FloatTensor<B>, x: &FloatTensor<B>) {
        tap::offer::<B>(values, grad, x);
    }
}

/// `X = Y W`, operands: values, `Y`.
#[derive(Debug)]
struct SpmmTransposed;

impl Product for SpmmTransposed {
    fn forward<B: SparseOps>(
        values: FloatTensor<B>,
        y: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::spmm_transposed(values, index, y, routines)
    }

    fn grad_lhs<B: SparseOps>(
        grad: FloatTensor<B>,
        y: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::sddmm(y, grad, index, routines)
    }

    fn grad_rhs<B: SparseOps>(
        grad: FloatTensor<B>,
        values: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::spmm(values, index, grad, routines)
    }

    fn offer<B: SparseOps>(values: NodeId, grad: &FloatTensor<B>, y: &FloatTensor<B>) {
        tap::offer::<B>(values, y, grad);
    }
}

/// `d[s] = sum_b Y[b, row(s)] X[b, col(s)]`, operands: `Y`, `X`.
#[derive(Debug)]
struct Sddmm;

impl Product for Sddmm {
    fn forward<B: SparseOps>(
        y: FloatTensor<B>,
        x: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::sddmm(y, x, index, routines)
    }

    fn grad_lhs<B: SparseOps>(
        grad: FloatTensor<B>,
        x: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::spmm(grad, index, x, routines)
    }

    fn grad_rhs<B: SparseOps>(
        grad: FloatTensor<B>,
        y: FloatTensor<B>,
        index: Index<B>,
        routines: Routines,
    ) -> FloatTensor<B> {
        B::spmm_transposed(grad, index, y, routines)
    }

    fn offer<B: SparseOps>(_: NodeId, _: &FloatTensor<B>, _: &FloatTensor<B>) {}
}

#[derive(Debug)]
struct ProductBackward<P>(core::marker::PhantomData<P>);

impl<P: Product, B: SparseOps> Backward<B, 2> for ProductBackward<P> {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let Saved {
            lhs,
            rhs,
            index,
            routines,
        } = ops.state;
        let lhs: Option<FloatTensor<B>> = lhs.map(|id| checkpointer.retrieve_node_output(id));
        let rhs: Option<FloatTensor<B>> = rhs.map(|id| checkpointer.retrieve_node_output(id));
        let index_rhs = index.clone();
        let lhs_id = ops.parents[0].as_ref().map(|node| node.id);
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |grad| {
                let rhs = rhs.expect(SAVED);
                if let Some(id) = lhs_id {
                    P::offer::<B>(id, &grad, &rhs);
                }
                P::grad_lhs::<B>(grad, rhs, index, routines)
            },
            |grad| P::grad_rhs::<B>(grad, lhs.expect(SAVED), index_rhs, routines),
        );
    }
}

/// `Y = X W^T + b`, operands: values, `X`, bias.
#[derive(Debug)]
struct SpmmBiasBackward;

impl<B: SparseOps> Backward<B, 3> for SpmmBiasBackward {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let product = ops.state;
        let values: Option<FloatTensor<B>> =
            product.lhs.map(|id| checkpointer.retrieve_node_output(id));
        let x: Option<FloatTensor<B>> = product.rhs.map(|id| checkpointer.retrieve_node_output(id));
        let grad = grads.consume::<B>(&ops.node);
        let [values_node, x_node, bias_node] = ops.parents;
        let (index, routines) = (product.index, product.routines);
        if let Some(node) = bias_node {
            grads.register::<B>(node.id, B::batch_sum(grad.clone()));
        }
        if let Some(node) = values_node {
            let x = x.expect(SAVED);
            Spmm::offer::<B>(node.id, &grad, &x);
            let grad = Spmm::grad_lhs::<B>(grad.clone(), x, index.clone(), routines);
            grads.register::<B>(node.id, grad);
        }
        if let Some(node) = x_node {
            let grad = Spmm::grad_rhs::<B>(grad, values.expect(SAVED), index, routines);
            grads.register::<B>(node.id, grad);
        }
    }
}

fn tracked_product<P: Product, B: SparseOps, C: CheckpointStrategy>(
    lhs: FloatTensor<Autodiff<B, C>>,
    rhs: FloatTensor<Autodiff<B, C>>,
    index: Index<Autodiff<B, C>>,
    routines: Routines,
) -> FloatTensor<Autodiff<B, C>> {
    let index: Index<B> = index.rewrap();
    let (lhs_tracked, rhs_tracked) = (lhs.is_tracked(), rhs.is_tracked());
    let prep = ProductBackward::<P>(core::marker::PhantomData)
        .prepare::<C>([lhs.node(), rhs.node()])
        .compute_bound()
        .stateful();
    match prep {
        OpsKind::Tracked(mut prep) => {
            let saved = Saved {
                lhs: rhs_tracked.then(|| prep.checkpoint(&lhs)),
                rhs: lhs_tracked.then(|| prep.checkpoint(&rhs)),
                index: index.clone(),
                routines,
            };
            let output =
                P::forward::<B>(lhs.into_primitive(), rhs.into_primitive(), index, routines);
            prep.finish(saved, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(P::forward::<B>(
            lhs.into_primitive(),
            rhs.into_primitive(),
            index,
            routines,
        )),
    }
}

/// `Y = L R` of dense matrices.
#[derive(Debug)]
struct DenseProduct;

impl<B: SparseOps> Backward<B, 2> for DenseProduct {
    type State = [Option<NodeId>; 2];

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let turned = |node: Option<NodeId>, checkpointer: &mut Checkpointer| {
            let operand: FloatTensor<B> = checkpointer.retrieve_node_output(node.expect(SAVED));
            let rank = operand.rank();
            B::float_swap_dims(operand, rank - 2, rank - 1)
        };
        let [lhs, rhs] = ops.state;
        let grad = grads.consume::<B>(&ops.node);
        let [lhs_node, rhs_node] = ops.parents;
        if let Some(node) = lhs_node {
            let grad = B::dense_product(grad.clone(), turned(rhs, checkpointer));
            grads.register::<B>(node.id, grad);
        }
        if let Some(node) = rhs_node {
            let grad = B::dense_product(turned(lhs, checkpointer), grad);
            grads.register::<B>(node.id, grad);
        }
    }
}

impl<B: SparseOps, C: CheckpointStrategy> SparseOps for Autodiff<B, C> {
    fn spmm(
        values: FloatTensor<Self>,
        index: Index<Self>,
        x: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        tracked_product::<Spmm, B, C>(values, x, index, routines)
    }

    fn spmm_bias(
        values: FloatTensor<Self>,
        index: Index<Self>,
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        let index: Index<B> = index.rewrap();
        let (values_tracked, x_tracked) = (values.is_tracked(), x.is_tracked());
        let prep = SpmmBiasBackward
            .prepare::<C>([values.node(), x.node(), bias.node()])
            .compute_bound()
            .stateful();
        let forward = |values, x, bias| B::spmm_bias(values, index.clone(), x, bias, routines);
        match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = Saved {
                    lhs: x_tracked.then(|| prep.checkpoint(&values)),
                    rhs: values_tracked.then(|| prep.checkpoint(&x)),
                    index: index.clone(),
                    routines,
                };
                let output = forward(
                    values.into_primitive(),
                    x.into_primitive(),
                    bias.into_primitive(),
                );
                prep.finish(saved, output)
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(
                values.into_primitive(),
                x.into_primitive(),
                bias.into_primitive(),
            )),
        }
    }

    fn spmm_transposed(
        values: FloatTensor<Self>,
        index: Index<Self>,
        y: FloatTensor<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        tracked_product::<SpmmTransposed, B, C>(values, y, index, routines)
    }

    fn sddmm(
        y: FloatTensor<Self>,
        x: FloatTensor<Self>,
        index: Index<Self>,
        routines: Routines,
    ) -> FloatTensor<Self> {
        tracked_product::<Sddmm, B, C>(y, x, index, routines)
    }

    fn dense_product(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        let (lhs_tracked, rhs_tracked) = (lhs.is_tracked(), rhs.is_tracked());
        let prep = DenseProduct
            .prepare::<C>([lhs.node(), rhs.node()])
            .compute_bound()
            .stateful();
        match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = [
                    rhs_tracked.then(|| prep.checkpoint(&lhs)),
                    lhs_tracked.then(|| prep.checkpoint(&rhs)),
                ];
                let output = B::dense_product(lhs.into_primitive(), rhs.into_primitive());
                prep.finish(saved, output)
            }
            OpsKind::UnTracked(prep) => {
                prep.finish(B::dense_product(lhs.into_primitive(), rhs.into_primitive()))
            }
        }
    }

    fn batch_sum(x: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::from_inner(B::batch_sum(x.into_primitive()))
    }

    fn top_gradients(
        g: FloatTensor<Self>,
        x: FloatTensor<Self>,
        mask: IntTensor<Self>,
        panel: GradientPanel,
        count: usize,
        floor: f32,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        let (g, x) = (g.into_primitive(), x.into_primitive());
        let (positions, gradients) = B::top_gradients(g, x, mask, panel, count, floor);
        (positions, Self::from_inner(gradients))
    }

    fn top_gradients_per_row(
        g: FloatTensor<Self>,
        x: FloatTensor<Self>,
        mask: IntTensor<Self>,
        starts: IntTensor<Self>,
        panel: GradientPanel,
        total: usize,
    ) -> (IntTensor<Self>, FloatTensor<Self>) {
        let (g, x) = (g.into_primitive(), x.into_primitive());
        let (positions, gradients) = B::top_gradients_per_row(g, x, mask, starts, panel, total);
        (positions, Self::from_inner(gradients))
    }
}
