//! The operations on the host, nodes in parallel.

use burn::backend::Flex;
use burn::backend::TensorMetadata;
use burn::backend::tensor::FloatTensor;
use burn::tensor::{Shape, TensorData};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::node::{Node, NodeGradient, dot};
use super::{HopAttentionOps, HopAttentionSettings, share_count};

/// Nodes whose gradients one thread adds up, in their order.
const BLOCK: usize = 64;

impl HopAttentionOps for Flex {
    fn attend_hops(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> FloatTensor<Self> {
        let [hops, weight, bias, factors] =
            [hops, weight, bias, factors].map(|x| x.to_contiguous());
        let nodes = Nodes::new(&hops, &weight, &bias, &factors, settings);
        let mut output = vec![0.0; nodes.batch * nodes.width];
        let rows = output.par_chunks_exact_mut(nodes.width).enumerate();
        rows.with_min_len(BLOCK).for_each(|(index, output)| {
            let weights = nodes.node(index).weights(nodes.count);
            for (hop, weight) in weights.into_iter().enumerate() {
                for (sum, x) in output.iter_mut().zip(nodes.hop(hop, index)) {
                    *sum += weight * x;
                }
            }
        });
        tensor(output, [nodes.batch, nodes.width])
    }

    fn attend_hops_backward(
        hops: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        factors: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        settings: HopAttentionSettings,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let grad = grad.to_contiguous();
        let [hops, weight, bias, factors] =
            [hops, weight, bias, factors].map(|x| x.to_contiguous());
        let nodes = Nodes::new(&hops, &weight, &bias, &factors, settings);
        let (count, width) = (nodes.count, nodes.width);
        let row = |index: usize| &grad.storage::<f32>()[index * width..(index + 1) * width];

        let gradients: Vec<(Vec<f32>, NodeGradient)> = (0..nodes.batch)
            .into_par_iter()
            .with_min_len(BLOCK)
            .map(|index| {
                let node = nodes.node(index);
                let of_weights: Vec<f32> = (0..count)
                    .map(|hop| dot(row(index), nodes.hop(hop, index)))
                    .collect();
                (node.weights(count), node.backward(&of_weights))
            })
            .collect();

        let mut of_hops = vec![0.0; count * nodes.batch * width];
        let rows = of_hops.par_chunks_exact_mut(width).enumerate();
        rows.with_min_len(BLOCK).for_each(|(place, output)| {
            let (hop, index) = (place / nodes.batch, place % nodes.batch);
            let (weights, found) = &gradients[index];
            let (first, second) = nodes.weight.split_at(width);
            let parts = row(index).iter().zip(first).zip(second);
            for (output, ((grad, first), second)) in output.iter_mut().zip(parts) {
                *output = weights[hop] * grad + found.before[hop] * first + found.own[hop] * second;
            }
        });

        let blocks: Vec<Vec<f32>> = gradients
            .par_chunks(BLOCK)
            .enumerate()
            .map(|(block, gradients)| nodes.weight_gradient(block * BLOCK, gradients))
            .collect();
        let mut of_score = vec![0.0; 2 * width + 1];
        for block in blocks {
            for (sum, part) in of_score.iter_mut().zip(block) {
                *sum += part;
            }
        }
        let of_bias = of_score.pop().expect("the bias comes last");
        (
            tensor(of_hops, [count, nodes.batch, width]),
            tensor(of_score, [2 * width, 1]),
            tensor(vec![of_bias], [1]),
        )
    }
}

/// The inputs.
struct Nodes<'a> {
    hops: &'a [f32],
    weight: &'a [f32],
    bias: f32,
    factors: &'a [f32],
    settings: HopAttentionSettings,
    count: usize,
    batch: usize,
    width: usize,
}

impl<'a> Nodes<'a> {
    /// Reads contiguous tensors.
    fn new(
        hops: &'a FlexTensor,
        weight: &'a FlexTensor,
        bias: &'a FlexTensor,
        factors: &'a FlexTensor,
        settings: HopAttentionSettings,
    ) -> Self {
        let [count, batch, width] = hops.shape().dims();
        Self {
            hops: hops.storage(),
            weight: weight.storage(),
            bias: bias.storage::<f32>()[0],
            factors: factors.storage(),
            settings,
            count,
            batch,
            width,
        }
    }

    fn hop(&self, hop: usize, index: usize) -> &[f32] {
        let first = (hop * self.batch + index) * self.width;
        &self.hops[first..first + self.width]
    }

    fn node(&self, index: usize) -> Node<'_> {
        let (first, second) = self.weight.split_at(self.width);
        let hops = || (0..self.count).map(|hop| self.hop(hop, index));
        let own: Vec<f32> = hops().map(|z| dot(second, z) + self.bias).collect();
        let shares = share_count(self.count);
        let factors = &self.factors;
        let factors =
            (self.settings.has_factors).then(|| &factors[index * shares..(index + 1) * shares]);
        let before = hops().map(|z| dot(first, z)).collect();
        Node::new(before, &own, factors, self.settings.activation)
    }

    /// The gradients of weight and bias, `[2 width + 1]`, of some nodes from `start` on.
    fn weight_gradient(&self, start: usize, gradients: &[(Vec<f32>, NodeGradient)]) -> Vec<f32> {
        let mut sums = vec![0.0; 2 * self.width + 1];
        let (halves, bias) = sums.split_at_mut(2 * self.width);
        let (first, second) = halves.split_at_mut(self.width);
        for (index, (_, found)) in gradients.iter().enumerate() {
            for hop in 0..self.count {
                let (before, own) = (found.before[hop], found.own[hop]);
                let sums = first.iter_mut().zip(&mut *second);
                for ((first, second), x) in sums.zip(self.hop(hop, start + index)) {
                    *first += before * x;
                    *second += own * x;
                }
                bias[0] += own;
            }
        }
        sums
    }
}

fn tensor<const D: usize>(data: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(data, Shape::new(shape)))
}
