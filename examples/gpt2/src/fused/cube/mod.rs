//! The operations as CubeCL kernels.

mod adamw;
mod attend;
mod exponentials;
mod few_rows;
mod gelu;
mod heads;
mod losses;
mod norm;
mod softmax;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::FloatDType;
use burn_cubecl::CubeBackend;
use burn_cubecl::kernel::into_contiguous;

use super::{AdamWStep, FusedOps};

impl FusedOps for CubeBackend {
    fn causal_softmax(scores: FloatTensor<Self>, scale: f32) -> FloatTensor<Self> {
        softmax::forward(into_contiguous(scores), scale)
    }

    fn causal_softmax_backward(
        weights: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self> {
        softmax::backward(into_contiguous(weights), into_contiguous(grad), scale)
    }

    fn split_heads(x: FloatTensor<Self>, parts: usize, heads: usize) -> FloatTensor<Self> {
        heads::split(into_contiguous(x), parts, heads)
    }

    fn join_heads(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        heads: usize,
    ) -> FloatTensor<Self> {
        heads::join([query, key, value].map(into_contiguous), heads)
    }

    fn gelu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self> {
        gelu::forward(gelu::dense(x))
    }

    fn gelu_tanh_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        gelu::backward(gelu::dense(x), gelu::dense(grad))
    }

    fn norm_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let [x, gamma, beta] = [x, gamma, beta].map(into_contiguous);
        norm::forward(x, gamma, beta, epsilon, dtype.into())
    }

    fn norm_rows_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [x, gamma, grad] = [x, gamma, grad].map(into_contiguous);
        norm::backward(x, gamma, grad, epsilon)
    }

    fn token_losses(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        losses::forward(
            into_contiguous(logits),
            into_contiguous(targets),
            vocabulary,
        )
    }

    fn token_losses_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let [logits, targets, grad] = [logits, targets, grad].map(into_contiguous);
        losses::backward(logits, targets, grad, vocabulary)
    }

    fn adamw_step(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let [weight, grad, first, second] = [weight, grad, first, second].map(into_contiguous);
        let [weight, first, second] = adamw::step([weight, first, second], grad, step);
        (weight, first, second)
    }

    fn project_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let [x, weight, bias] = [x, weight, bias].map(into_contiguous);
        few_rows::project(x, weight, bias)
    }

    fn compare_rows(x: FloatTensor<Self>, table: FloatTensor<Self>) -> FloatTensor<Self> {
        few_rows::compare(into_contiguous(x), into_contiguous(table))
    }

    fn attend(
        query: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        place: IntTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self> {
        let [query, cache, place] = [query, cache, place].map(into_contiguous);
        attend::attend(query, cache, place, scale)
    }
}
