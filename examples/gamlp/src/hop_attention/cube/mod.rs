//! The operations as CubeCL kernels. A team of units has a node at a time, and every unit of it computes the
//! scores, which take no time beside reading the hops.

mod gradients;
mod score;

use burn::backend::tensor::FloatTensor;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;

use super::{HopAttentionOps, HopAttentionSettings};

impl HopAttentionOps for CubeBackend {
    fn attend_hops(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> FloatTensor<Self> {
        let inputs = [hops, weight, bias, factors].map(into_contiguous);
        score::forward(inputs, settings)
    }

    fn attend_hops_backward(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let inputs = [hops, weight, bias, factors].map(into_contiguous);
        gradients::backward(inputs, into_contiguous(grad), settings)
    }
}
