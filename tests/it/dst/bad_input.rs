//! What cannot work is refused by name, with model and optimizer as they were.

use burn::module::{Module, ParamGroup};
use burn::nn::LinearConfig;
use burn::optim::{AdamConfig, GradientsParams, SgdConfig};
use burn::tensor::Device;
use rand::Rng;
use snack_burn::dst::{
    Allocation, Composed, Grow, GrowConfig, LayerShape, LayerView, Magnitude, Method, NetView,
    Plan, Prune, Request, Scope, Turnover, Uniform, UpdateRandom,
};
use snack_burn::prelude::*;

use crate::records::Net;
use crate::support::records::contents;
use crate::support::{flex, tensor2};

fn layer(device: &Device) -> SparseLinear {
    SparseLinearConfig::new(8, 6)
        .with_nnz(Some(12))
        .with_seed(Some(1))
        .init(device)
}

#[test]
fn settings_out_of_range_are_named() {
    let net = layer(&Device::default());
    let cases = [
        (
            DstConfig::set().with_drop_fraction(1.0),
            "drop fraction 1 is out of range, expected a number in [0, 1)",
        ),
        (
            DstConfig::set().with_drop_fraction(-0.1),
            "drop fraction -0.1 is out of range",
        ),
        (
            DstConfig::rigl(10).with_drop_fraction(f64::NAN),
            "drop fraction NaN is out of range",
        ),
        (DstConfig::set().with_every(0), "an interval of 0 steps"),
        (DstConfig::rigl(100).with_every(0), "an interval of 0 steps"),
        (
            DstConfig::set().with_start(50).with_stop(Some(49)),
            "updates stop at step 49, expected at least step 50",
        ),
        (
            DstConfig::rigl(100).with_stop(None),
            "a cosine schedule has no last step",
        ),
        (
            DstConfig::set().with_accumulate(0),
            "accumulation 0 is out of range, expected at least 1",
        ),
        (
            DstConfig::rigl(100).with_max_rows(Some(0)),
            "number of captured rows 0 is out of range, expected at least 1",
        ),
        (
            DstConfig::guided().with_guidance(Some(1.5)),
            "guidance 1.5 is out of range, expected a number in [0, 1]",
        ),
        (
            DstConfig::fixed_fan_in_set().with_guidance(Some(1.0)),
            "reachability cannot guide quotas per row",
        ),
        (
            DstConfig::set().with_fresh(snack_burn::dst::FreshValue::Normal { std: -1.0 }),
            "standard deviation of fresh values -1 is out of range",
        ),
        (
            DstConfig::set().with_state(snack_burn::dst::StatePolicy::GradientSeed { c: -1.0 }),
            "gradient seed -1 is out of range",
        ),
        (
            DstConfig::srigl(10).with_special(Some(snack_burn::dst::SpecialConfig::SRigL {
                ablation: Some(2.0),
            })),
            "ablation share 2 is out of range",
        ),
        (
            DstConfig::gse(10).with_grow(GrowConfig::Sampled {
                law: snack_burn::dst::CandidateLaw::GraBo,
                candidates: f64::NAN,
            }),
            "number of candidates NaN is out of range",
        ),
        (
            DstConfig::gse(10).with_scope(Scope::Row),
            "sampled growth has no quotas per row",
        ),
    ];
    for (config, expected) in cases {
        let error = config.init(&net).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}, expected {expected}");
    }
}

/// Every number of a configuration, one by one: far outside, just outside, and no number.
#[test]
fn every_number_is_checked() {
    use snack_burn::dst::{ActivityConfig, Anneal, CandidateLaw, PruneConfig, SpecialConfig};
    use snack_burn::dst::{FreshValue, StatePolicy};
    let net = layer(&Device::default());
    type Change = fn(DstConfig, f64) -> DstConfig;
    let set = DstConfig::set;
    let ended = || DstConfig::set().with_stop(Some(1000));
    let below_one = [-0.1, 1.0, 1e30];
    let share = [-0.1, 1.1, -1e30];
    let positive = [-0.1, -1e30, f64::INFINITY];
    let cases: Vec<(&str, DstConfig, [f64; 3], Change)> = vec![
        ("drop_fraction", set(), below_one, |c, x| {
            c.with_drop_fraction(x)
        }),
        ("floor", ended(), below_one, |c, floor| {
            c.with_anneal(Anneal::CosineFloor { floor })
        }),
        ("exponent", ended(), positive, |c, exponent| {
            c.with_anneal(Anneal::Power { exponent })
        }),
        ("lambda", set(), positive, |c, x| {
            let lambda = x as f32;
            c.with_prune(PruneConfig::MagnitudePlusGradient { lambda })
        }),
        ("decay", DstConfig::dadp(), share, |c, x| {
            c.with_prune(PruneConfig::Activity(ActivityConfig {
                decay: x as f32,
                per_sample: true,
            }))
        }),
        ("candidates", set(), positive, |c, candidates| {
            c.with_grow(GrowConfig::Sampled {
                law: CandidateLaw::Uniform,
                candidates,
            })
        }),
        ("ablation", set(), share, |c, x| {
            c.with_special(Some(SpecialConfig::SRigL { ablation: Some(x) }))
        }),
        ("std", set(), positive, |c, std| {
            c.with_fresh(FreshValue::Normal { std })
        }),
        ("gain", set(), positive, |c, gain| {
            c.with_fresh(FreshValue::KeepIfReturned(Box::new(FreshValue::Uniform {
                gain,
            })))
        }),
        ("c", set(), positive, |c, x| {
            c.with_state(StatePolicy::GradientSeed { c: x as f32 })
        }),
        ("guidance", set(), share, |c, x| c.with_guidance(Some(x))),
    ];
    for (name, config, numbers, change) in cases {
        for number in numbers.into_iter().chain([f64::NAN]) {
            for config in [
                config.clone(),
                // A field that the rule does not look at.
                config.clone().with_special(Some(SpecialConfig::SignFlip)),
            ] {
                let result = change(config, number).init(&net).map(|_| ());
                assert!(
                    matches!(
                        result,
                        Err(DstError::InvalidParameter { .. } | DstError::InvalidFraction { .. })
                    ),
                    "{name} {number}: {result:?}"
                );
            }
        }
        assert!(change(config, 0.25).init(&net).is_ok(), "{name} 0.25");
    }
    let counts: [(&str, DstConfig); 4] = [
        ("every", set().with_every(0)),
        ("start", set().with_start(9).with_stop(Some(8))),
        ("accumulate", set().with_accumulate(0)),
        ("max_rows", set().with_max_rows(Some(0))),
    ];
    for (name, config) in counts {
        assert!(config.init(&net).is_err(), "{name}");
        let unused = config.with_special(Some(SpecialConfig::Static));
        assert!(unused.init(&net).is_err(), "{name}, static");
    }
    // Pieces of a composition of one's own.
    for method in [
        Composed::new(
            snack_burn::dst::MagnitudePlusGradient { lambda: f32::NAN },
            Uniform,
        ),
        Composed {
            guidance: Some(f64::NAN),
            ..Composed::new(Magnitude, Uniform)
        },
        Composed::new(
            Magnitude,
            snack_burn::dst::Sampled {
                law: CandidateLaw::GraBo,
                candidates: -1.0,
            },
        ),
    ] {
        assert!(set().rule_of(method).is_err());
    }
}

#[test]
fn models_without_sparse_layers_are_refused() {
    let device = Device::default();
    let dense = LinearConfig::new(4, 3).init(&device);
    let error = DstConfig::set().init(&dense).map(|_| ()).unwrap_err();
    assert_eq!(error, DstError::NoSparseLayers);
    assert!(
        error
            .to_string()
            .contains("expected at least one `SparseLinear`")
    );

    let net = Net::new([10, 10, 10], 1, &device);
    let groups = vec![(ParamGroup::all(), None)];
    let error = DstConfig::set().init_groups(&net, groups, DstState::default());
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        error,
        "no sparse layer of the model is rewired, the first of 3 is `first`"
    );
}

/// A density below what the layers that are kept dense take: the error names the largest sparsity.
#[test]
fn infeasible_densities_name_what_is_feasible() {
    let layers = [
        LayerShape::new("first", [100, 50]),
        LayerShape::new("head", [10, 100]).kept_dense(),
    ];
    let error = Allocation::erk(0.1).slots(&layers).unwrap_err().to_string();
    assert!(
        error.contains("a sparsity of 90 % is infeasible for these layers, expected at most 83."),
        "{error}"
    );
    assert!(
        error.contains("(a density of 0.1, expected at least 0.1669)"),
        "{error}"
    );
}

/// A criterion with one fault.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Existing,
    Unsorted,
    OutOfRange,
    TooMany,
    TooFewScores,
    Unasked,
}

impl Grow for Fault {
    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        let mut flats = Uniform.propose(layer, request, rng)?;
        match self {
            Self::Existing => {
                flats = layer.pattern.flats().take(flats.len()).collect();
            }
            Self::Unsorted => flats.reverse(),
            Self::OutOfRange => *flats.last_mut().unwrap() = layer.pattern.size(),
            Self::TooMany => {
                let all = Request::new(snack_burn::dst::Quota::Layer(20), request.taken);
                flats = Uniform.propose(layer, &all, rng)?;
            }
            Self::Unasked => {
                layer.factors()?;
            }
            Self::TooFewScores => {}
        }
        Ok(flats)
    }
}

impl Prune for Fault {
    fn scores(&self, layer: &LayerView<'_>) -> Result<Vec<f32>, DstError> {
        let mut scores = Magnitude.scores(layer)?;
        if let Self::TooFewScores = self {
            scores.pop();
        }
        Ok(scores)
    }
}

/// A method that forgets a layer.
struct Forgetful;

impl Method for Forgetful {
    fn plan(
        &self,
        net: &NetView<'_>,
        _turnover: Turnover,
        _random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let layers = net.layers.iter().skip(1);
        layers
            .map(|layer| Ok(Plan::new(layer.pattern, &[0], &[])?))
            .collect()
    }
}

/// Everything is planned before anything changes.
#[test]
fn faulty_criteria_change_nothing() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let config = DstConfig::set().with_every(1);
    let mut rules: Vec<(&str, Dst)> = Vec::new();
    let net = Net::new([100, 200, 50], 1, &device);
    for (fault, expected) in [
        (Fault::Existing, "is a non-zero of the pattern"),
        (
            Fault::Unsorted,
            "expected strictly increasing row-major order",
        ),
        (Fault::OutOfRange, "flat index 576 at position"),
        (
            Fault::TooMany,
            "list of proposed coordinates has length 20, expected 15",
        ),
        (Fault::TooFewScores, "99 prune scores, expected 100"),
        (
            Fault::Unasked,
            "the criterion uses the factors of the gradient, for which it did not ask",
        ),
    ] {
        let method = Composed::new(fault, fault);
        let rule = config.rule_of(method).unwrap();
        rules.push((
            expected,
            Dst::new(&net, rule, 1, DstState::default()).unwrap(),
        ));
    }
    let rule = config.rule_of(Forgetful).unwrap();
    let forgetful = Dst::new(&net, rule, 1, DstState::default()).unwrap();
    rules.push(("2 plans, expected one for each of 3 layers", forgetful));

    let numbers: Vec<f32> = (0..8 * 24).map(|i| (i as f32 * 0.3).sin()).collect();
    let x = tensor2(&numbers, [8, 24], &device);
    for (expected, mut dst) in rules {
        let loss = net.forward(x.clone()).powi_scalar(2).mean();
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        let mut optim = AdamConfig::new().init();
        let net = optim.step(0.1, net.clone(), grads);
        let before = contents(net.clone().into_record());
        let state = optim.to_record().into_bytes().unwrap();
        let (net, result) = dst.try_step(net, &mut optim);
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}, expected {expected}");
        assert!(
            contents(net.clone().into_record()) == before,
            "{expected}: the model"
        );
        let after = optim.to_record().into_bytes().unwrap();
        assert_eq!(after.len(), state.len(), "{expected}: the optimizer");
        assert_eq!(dst.last_update(), None, "{expected}");
        assert_eq!(dst.last_changes(), None, "{expected}");
        assert_eq!(dst.steps(), 1);
    }
}

/// An updater belongs to the model for which it was made.
#[test]
fn another_model_is_refused() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut dst = DstConfig::set()
        .with_every(1)
        .init(&Net::new([100, 200, 50], 1, &device))
        .unwrap();
    let mut optim = SgdConfig::new().init();
    let (_, result) = dst.try_step(layer(&device), &mut optim);
    let error = result.unwrap_err().to_string();
    assert!(error.contains("there is no layer `(model)`"), "{error}");
    let (net, result) = dst.try_step(Net::new([100, 201, 50], 1, &device), &mut optim);
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("layer `blocks.0` was changed by something else")
            && error.contains("it has 201 connections, expected 200;"),
        "{error}"
    );
    assert_eq!(net.blocks[0].nnz(), 201);
    // As many connections, but others.
    let (net, result) = dst.try_step(Net::new([100, 200, 50], 9, &device), &mut optim);
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("layer `first` was changed by something else")
            && error.contains("it has 100 connections, expected 100 at the same coordinates"),
        "{error}"
    );
    assert_eq!(net.first.nnz(), 100);
}

/// An optimizer that was never stepped has no state to move.
#[test]
fn an_optimizer_without_state_stays_so() {
    let Some(backend) = flex() else { return };
    let net = Net::new([100, 200, 50], 1, &backend.autodiff());
    for config in [
        DstConfig::set(),
        DstConfig::set().with_state(snack_burn::dst::StatePolicy::Borrow),
    ] {
        let mut dst = config.with_every(1).init(&net).unwrap();
        let (after, optim) = dst.step(net.clone(), AdamConfig::new().init());
        assert!(optim.to_record().is_empty());
        assert_ne!(after.first.pattern(), net.first.pattern());
    }
}
