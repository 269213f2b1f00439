use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::GradientsParams,
    tensor::{Tensor, distributed::ReduceOperation},
};
use snack_burn::dist::{Communicator, DistError};

/// Added to the norm that divides.
const EPSILON: f32 = 1e-6;

/// Scales all gradients by one number, so that the norm of all of them together is at most `norm`; those
/// that are shorter stay as they are.
///
/// Nothing is read from the device. Ranks, whose devices may add in other orders, agree on the number, so that
/// equal gradients stay equal.
///
/// Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013,
/// algorithm 1.
///
/// # Errors
///
/// As [`Communicator::all_reduce`].
pub fn clip_gradients<M: Module>(
    ranks: &dyn Communicator,
    model: &M,
    mut grads: GradientsParams,
    norm: f32,
) -> Result<GradientsParams, DistError> {
    let mut squares = Squares {
        grads: &grads,
        sums: Vec::new(),
    };
    model.visit(&mut squares);
    let sums = squares.sums;
    if sums.is_empty() {
        return Ok(grads);
    }
    let mut found = vec![Tensor::cat(sums, 0).sum().sqrt()];
    if ranks.ranks() > 1 {
        found = ranks.all_reduce(found, ReduceOperation::Mean)?;
    }
    let found = found.remove(0);
    let factor = ((found + EPSILON).recip() * norm).clamp_max(1.0);
    model.visit(&mut Scale {
        grads: &mut grads,
        factor,
    });
    Ok(grads)
}

/// The sum of the squares of every gradient, `[1]`.
struct Squares<'a> {
    grads: &'a GradientsParams,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.grads.get::<D>(param.id) {
            self.sums.push((gradient.clone() * gradient).sum());
        }
    }
}

struct Scale<'a> {
    grads: &'a mut GradientsParams,
    factor: Tensor<1>,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.grads.remove::<D>(param.id) {
            let factor = self.factor.clone().reshape([1; D]);
            self.grads.register::<D>(param.id, gradient * factor);
        }
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use super::*;
    use burn::{
        nn::{Linear, LinearConfig},
        tensor::{Device, TensorData},
    };
    use snack_burn::dist::Alone;

    /// The gradients `3` and `[0, 4]` of a layer, clipped.
    fn clipped(norm: f32) -> (Vec<f32>, Vec<f32>) {
        let device = Device::flex().autodiff();
        let layer: Linear = LinearConfig::new(1, 2).init(&device);
        let weight = Tensor::<2>::from_data(TensorData::from([[3.0, 0.0]]), &device);
        let bias = Tensor::<1>::from_data(TensorData::from([0.0, 4.0]), &device);
        let loss =
            (layer.weight.val() * weight).sum() + (layer.bias.as_ref().unwrap().val() * bias).sum();
        let grads = GradientsParams::from_grads(loss.backward(), &layer);
        let grads = clip_gradients(&Alone, &layer, grads, norm).unwrap();
        let weight = grads.get::<2>(layer.weight.id).unwrap().into_data();
        let bias = grads.get::<1>(layer.bias.as_ref().unwrap().id).unwrap();
        (
            weight.try_to_vec().unwrap(),
            bias.into_data().try_to_vec().unwrap(),
        )
    }

    #[test]
    fn the_norm_of_all_gradients_is_bounded() {
        assert_eq!(clipped(5.1), (vec![3.0, 0.0], vec![0.0, 4.0]));
        let (weight, bias) = clipped(1.0);
        let expected = [
            (weight[0], 0.6),
            (weight[1], 0.0),
            (bias[0], 0.0),
            (bias[1], 0.8),
        ];
        for (found, expected) in expected {
            assert!(
                (found - expected).abs() < 1e-6,
                "{found}, expected {expected}"
            );
        }
    }
}
