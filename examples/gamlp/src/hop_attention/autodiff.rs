use burn::backend::autodiff::{
    NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, AutodiffBackend};

use super::{HopAttentionOps, HopAttentionSettings};

#[derive(Debug)]
struct AttendHops;

/// What the backward pass needs: hops, weight and bias, then what is no parent.
#[derive(Debug, Clone)]
struct Saved<B: HopAttentionOps> {
    parents: [NodeId; 3],
    factors: FloatTensor<B>,
    settings: HopAttentionSettings,
}

impl<B: HopAttentionOps> Backward<B, 3> for AttendHops {
    type State = Saved<B>;

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        grads: &mut Gradients,
        checkpointer: &mut Checkpointer,
    ) {
        let Saved {
            parents,
            factors,
            settings,
        } = ops.state;
        let [hops, weight, bias] = parents.map(|parent| checkpointer.retrieve_node_output(parent));
        let grad = grads.consume::<B>(&ops.node);
        let (hops, weight, bias) =
            B::attend_hops_backward(hops, weight, bias, factors, grad, settings);
        for (node, grad) in ops.parents.into_iter().zip([hops, weight, bias]) {
            if let Some(node) = node {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}

impl<B: HopAttentionOps, C: CheckpointStrategy> HopAttentionOps for Autodiff<B, C> {
    fn attend_hops(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> FloatTensor<Self> {
        let prep = AttendHops
            .prepare::<C>([hops.node(), weight.node(), bias.node()])
            .compute_bound()
            .stateful();
        let factors = factors.into_primitive();
        let forward = |hops: FloatTensor<Self>,
                       weight: FloatTensor<Self>,
                       bias: FloatTensor<Self>,
                       factors| {
            let (hops, weight) = (hops.into_primitive(), weight.into_primitive());
            B::attend_hops(hops, weight, bias.into_primitive(), factors, settings)
        };
        match prep {
            OpsKind::Tracked(mut prep) => {
                let saved = Saved {
                    parents: [&hops, &weight, &bias].map(|tensor| prep.checkpoint(tensor)),
                    factors: factors.clone(),
                    settings,
                };
                prep.finish(saved, forward(hops, weight, bias, factors))
            }
            OpsKind::UnTracked(prep) => prep.finish(forward(hops, weight, bias, factors)),
        }
    }

    fn attend_hops_backward(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [hops, weight, bias, factors, grad] =
            [hops, weight, bias, factors, grad].map(|tensor| tensor.into_primitive());
        let (hops, weight, bias) =
            B::attend_hops_backward(hops, weight, bias, factors, grad, settings);
        (
            Self::from_inner(hops),
            Self::from_inner(weight),
            Self::from_inner(bias),
        )
    }
}
