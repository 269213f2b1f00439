//! The operations on the host: rows in parallel, in `f32`.

mod rows;

use burn::backend::ops::FloatTensorOps;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Flex, TensorMetadata};
use burn::tensor::{DType, FloatDType, Shape, TensorData};
use burn_flex::FlexTensor;

use super::{AdamWStep, FusedOps};
use rows::{Cached, Causal, Losses, Norm};

impl FusedOps for Flex {
    fn causal_softmax(scores: FloatTensor<Self>, scale: f32) -> FloatTensor<Self> {
        let causal = Causal::of(&scores.shape(), scale);
        let weights = causal.softmax(in_f32(scores.clone()).storage());
        like(weights, &scores)
    }

    fn causal_softmax_backward(
        weights: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self> {
        let causal = Causal::of(&weights.shape(), scale);
        let grad = causal.backward(in_f32(weights.clone()).storage(), in_f32(grad).storage());
        like(grad, &weights)
    }

    fn gelu_tanh(x: FloatTensor<Self>) -> FloatTensor<Self> {
        like(rows::gelu(in_f32(x.clone()).storage()), &x)
    }

    fn gelu_tanh_backward(x: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let found = rows::gelu_backward(in_f32(x.clone()).storage(), in_f32(grad).storage());
        like(found, &x)
    }

    fn norm_rows(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        epsilon: f32,
        dtype: FloatDType,
    ) -> FloatTensor<Self> {
        let shape = x.shape();
        let [x, gamma, beta] = [x, gamma, beta].map(in_f32);
        let norm = Norm {
            gamma: gamma.storage(),
            epsilon,
        };
        let y = tensor(norm.apply(x.storage(), beta.storage()), shape);
        match dtype {
            FloatDType::F32 => y,
            _ => Flex::float_cast(y, dtype),
        }
    }

    fn norm_rows_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        epsilon: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (shape, width) = (x.shape(), gamma.shape());
        let [x, gamma, grad] = [x, gamma, grad].map(in_f32);
        let norm = Norm {
            gamma: gamma.storage(),
            epsilon,
        };
        let found = norm.backward(x.storage(), grad.storage());
        (
            tensor(found.x, shape),
            tensor(found.gamma, width.clone()),
            tensor(found.beta, width),
        )
    }

    fn token_losses(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let [rows, columns] = [logits.shape()[0], logits.shape()[1]];
        let losses = Losses {
            columns,
            vocabulary,
        };
        let found = losses.forward(in_f32(logits).storage(), &indices(targets));
        tensor(found, Shape::new([rows]))
    }

    fn token_losses_backward(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
        vocabulary: usize,
    ) -> FloatTensor<Self> {
        let losses = Losses {
            columns: logits.shape()[1],
            vocabulary,
        };
        let found = losses.backward(
            in_f32(logits.clone()).storage(),
            &indices(targets),
            in_f32(grad).storage(),
        );
        like(found, &logits)
    }

    fn adamw_step(
        weight: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        step: AdamWStep,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let shape = weight.shape();
        let grad = in_f32(grad);
        let mut state = [weight, first, second].map(owned);
        rows::adamw(&mut state, grad.storage(), step);
        let [weight, first, second] = state.map(|data| tensor(data, shape.clone()));
        (weight, first, second)
    }

    fn project_rows(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (rows, outputs) = (x.shape()[0], bias.shape()[0]);
        let bias = Flex::float_reshape(bias, Shape::new([1, outputs]));
        let product = Flex::float_matmul(x, weight);
        debug_assert_eq!(product.shape(), Shape::new([rows, outputs]));
        Flex::float_add(product, bias)
    }

    fn compare_rows(x: FloatTensor<Self>, table: FloatTensor<Self>) -> FloatTensor<Self> {
        Flex::float_matmul(x, Flex::float_swap_dims(table, 0, 1))
    }

    fn attend(
        query: FloatTensor<Self>,
        cache: FloatTensor<Self>,
        place: IntTensor<Self>,
        scale: f32,
    ) -> FloatTensor<Self> {
        let shape = query.shape();
        let (places, head_width) = (cache.shape()[2], cache.shape()[3]);
        let cached = Cached {
            heads: shape[1],
            places,
            head_width,
            seen: indices(place)[0].min(places - 1) + 1,
            scale,
        };
        let found = cached.attend(in_f32(query).storage(), in_f32(cache).storage());
        tensor(found, shape)
    }
}

/// The elements, without a copy where nobody else has them.
fn owned(tensor: FlexTensor) -> Vec<f32> {
    in_f32(tensor)
        .into_data()
        .try_into_vec()
        .expect("the data is f32")
}

fn in_f32(tensor: FlexTensor) -> FlexTensor {
    match tensor.dtype() {
        DType::F32 => tensor.to_contiguous(),
        _ => Flex::float_cast(tensor, FloatDType::F32).to_contiguous(),
    }
}

fn tensor(data: Vec<f32>, shape: Shape) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(data, shape))
}

/// A tensor of the shape and type of `other`.
fn like(data: Vec<f32>, other: &FlexTensor) -> FlexTensor {
    let tensor = tensor(data, other.shape());
    match other.dtype() {
        DType::F32 => tensor,
        dtype => Flex::float_cast(tensor, dtype.into()),
    }
}

fn indices(targets: FlexTensor) -> Vec<usize> {
    targets
        .into_data()
        .iter::<i64>()
        .map(|target| target as usize)
        .collect()
}
