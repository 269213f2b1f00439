use rand::Rng;

use super::*;
use crate::dst::{
    DstError, GradientTopK, Grow, HostFactors, LayerView, Magnitude, Method, NetView, Request,
    Scope, Turnover, Uniform, UpdateRandom,
};
use crate::pattern::Pattern;

const RANDOM: UpdateRandom = UpdateRandom { seed: 3, step: 7 };

fn pattern(shape: [usize; 2], nnz: usize) -> Pattern {
    Pattern::random(shape, nnz, &mut RANDOM.layer(nnz)).unwrap()
}

/// Finds at most so many coordinates, whatever it is asked for.
struct Few(usize);

impl Grow for Few {
    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        let mut flats = Uniform.propose(layer, request, rng)?;
        flats.truncate(self.0);
        Ok(flats)
    }
}

#[test]
fn who_finds_fewer_drops_fewer() {
    let pattern = pattern([6, 10], 20);
    let values: Vec<f32> = (1..=20).map(|v| v as f32).collect();
    let layer = LayerView::new("", &pattern, &values);
    let net = NetView::new(vec![layer, layer], 7);
    for scope in [Scope::Row, Scope::Layer, Scope::Network { floor: 1 }] {
        for found in [0, 1, 3] {
            let mut method = Composed::new(Magnitude, Few(found));
            method.scope = scope;
            let plans = method.plan(&net, Turnover::replace(0.5), RANDOM).unwrap();
            for plan in plans {
                assert_eq!((plan.dropped, plan.grown), (found, found), "{scope:?}");
                assert_eq!(plan.pattern.nnz(), 20);
            }
        }
    }
}

/// The smallest of both layers leave; the largest gradients of both enter.
#[test]
fn a_network_compares_layers() {
    let patterns = [pattern([4, 5], 8), pattern([4, 5], 8)];
    let (small, large) = ([0.1; 8], [5.0; 8]);
    let ones = |factor: f32| {
        let x = (1..=5).map(|x| x as f32).collect();
        HostFactors::new([4, 5], 1, vec![factor; 4], x)
    };
    let factors = [ones(1.0), ones(10.0)];
    let mut layers = [
        LayerView::new("a", &patterns[0], &small),
        LayerView::new("b", &patterns[1], &large),
    ];
    layers[0].factors = Some(&factors[0]);
    layers[1].factors = Some(&factors[1]);
    let net = NetView::new(layers.to_vec(), 7);
    let mut method = Composed::new(Magnitude, GradientTopK);
    method.scope = Scope::Network { floor: 2 };
    let plans = method.plan(&net, Turnover::replace(0.25), RANDOM).unwrap();
    assert_eq!([plans[0].dropped, plans[1].dropped], [4, 0]);
    assert_eq!([plans[0].grown, plans[1].grown], [0, 4]);
    // The floor: six of the first layer may leave at most.
    let plans = method.plan(&net, Turnover::replace(0.9), RANDOM).unwrap();
    assert_eq!([plans[0].dropped, plans[1].dropped], [6, 6]);
}

/// Both layers give up a half; the places go where the survivors' gradients are, as far as there
/// is room.
#[test]
fn budgets_follow_the_gradient_of_survivors() {
    let patterns = [pattern([10, 10], 40), pattern([4, 6], 14)];
    let values: Vec<f32> = (1..=40).map(|v| v as f32).collect();
    let factors = HostFactors::new([10, 10], 1, vec![1.0; 10], vec![1.0; 10]);
    // The halves that leave have the largest gradients, which must not count.
    let gradient = |survivors: f32, count: usize| -> Vec<f32> {
        let gradient = |slot| if slot < count / 2 { 1e6 } else { survivors };
        (0..count).map(gradient).collect()
    };
    for (ratio, expected) in [(1.0, [17, 10]), (0.0, [17, 10]), (f32::MAX, [27, 0])] {
        let gradients = [gradient(ratio, 40), gradient(1.0, 14)];
        let mut layers = [
            LayerView::new("a", &patterns[0], &values),
            LayerView::new("b", &patterns[1], &values[..14]),
        ];
        layers[0].gradient = Some(&gradients[0]);
        layers[1].gradient = Some(&gradients[1]);
        layers[0].factors = Some(&factors);
        let net = NetView::new(layers.to_vec(), 7);
        let mut method = Composed::new(Magnitude, Uniform);
        method.scope = Scope::Network { floor: 1 };
        method.redistribute = Redistribute::ByGradient;
        let plans = method.plan(&net, Turnover::replace(0.5), RANDOM).unwrap();
        assert_eq!([plans[0].dropped, plans[1].dropped], [20, 7]);
        // The second layer has room for ten.
        assert_eq!([plans[0].grown, plans[1].grown], expected, "{ratio}");
    }
}

#[test]
fn rows_keep_their_fan_in() {
    let pattern = pattern([7, 9], 30);
    let values: Vec<f32> = (0..30).map(|v| ((v * 7) % 30) as f32 - 15.0).collect();
    let net = NetView::new(vec![LayerView::new("", &pattern, &values)], 7);
    let mut method = Composed::new(Magnitude, Uniform);
    method.scope = Scope::Row;
    let plans = method.plan(&net, Turnover::replace(0.4), RANDOM).unwrap();
    assert_eq!(plans[0].pattern.fan_in(), pattern.fan_in());
    assert!(plans[0].dropped > 5);
}
