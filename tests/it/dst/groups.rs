//! Whole models: which layers are rewired by which rule, layers of different shapes, budgets that
//! move between layers, and paths that are kept open.

use burn::module::{Module, ParamGroup};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use snack_burn::dst::{Block, LayerGraph, Scope};
use snack_burn::nn::sparse_layers;
use snack_burn::prelude::*;

use crate::support::{flex, tensor2};

#[derive(Module, Debug)]
struct Mlp {
    first: SparseLinear,
    hidden: Vec<SparseLinear>,
    head: SparseLinear,
}

impl Mlp {
    /// Layers of different shapes.
    fn new(device: &Device) -> Self {
        let layer = |d_input, d_output, nnz, seed| {
            SparseLinearConfig::new(d_input, d_output)
                .with_nnz(Some(nnz))
                .with_seed(Some(seed))
                .init(device)
        };
        Self {
            first: layer(30, 20, 60, 1),
            hidden: vec![layer(20, 25, 50, 2), layer(25, 15, 40, 3)],
            head: layer(15, 4, 30, 4),
        }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = relu(self.first.forward(x));
        let x = self
            .hidden
            .iter()
            .fold(x, |x, layer| relu(layer.forward(x)));
        self.head.forward(x)
    }

    fn patterns(&self) -> Vec<Pattern> {
        sparse_layers(self).into_iter().map(|l| l.pattern).collect()
    }

    fn step(self, dst: &mut Dst, optim: &mut burn::optim::ModuleOptimizer, seed: usize) -> Self {
        let device = self.first.values.device();
        let numbers: Vec<f32> = (0..6 * 30)
            .map(|i| ((i + 331 * seed) as f32 * 0.7).sin())
            .collect();
        let loss = (self.forward(tensor2(&numbers, [6, 30], &device)) - 1.0)
            .powi_scalar(2)
            .mean();
        let grads = GradientsParams::from_grads(loss.backward(), &self);
        let net = optim.step(0.1, self, grads);
        dst.step_mut(net, optim)
    }
}

fn changed(before: &[Pattern], after: &[Pattern]) -> Vec<usize> {
    let pairs = before.iter().zip(after);
    pairs
        .map(|(before, after)| before.nnz() - before.overlap(after).unwrap())
        .collect()
}

#[test]
fn the_last_group_that_matches_decides() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let net = Mlp::new(&device);
    let config = DstConfig::set().with_every(1).with_drop_fraction(0.5);
    let hidden = || ParamGroup::from_predicate("hidden");
    let rigl = DstConfig::rigl(100).with_every(2).with_drop_fraction(0.1);
    type Groups = Vec<(ParamGroup, Option<DstConfig>)>;
    let cases: [(&str, Groups, [usize; 4]); 5] = [
        ("all", vec![], [30, 25, 20, 15]),
        (
            "head stays, by its path",
            vec![(ParamGroup::from_path("head"), None)],
            [30, 25, 20, 0],
        ),
        (
            "hidden layers by another rule, not due in the first step",
            vec![(hidden(), Some(rigl.clone()))],
            [30, 0, 0, 15],
        ),
        (
            "one of them excluded again, by the path of its values",
            vec![
                (hidden(), None),
                (
                    ParamGroup::from_path("hidden.1.values"),
                    Some(config.clone().with_drop_fraction(0.25)),
                ),
            ],
            [30, 0, 10, 15],
        ),
        (
            "all but those of a group",
            vec![(ParamGroup::all().exclude(hidden()), None)],
            [0, 25, 20, 0],
        ),
    ];
    for (text, groups, expected) in cases {
        let mut dst = config
            .init_groups(&net, groups, DstState::default())
            .unwrap();
        let before = net.patterns();
        let net = net.clone().step(&mut dst, &mut SgdConfig::new().init(), 1);
        assert_eq!(changed(&before, &net.patterns()), expected, "{text}");
        let update = dst.last_update().unwrap();
        let rewired = expected.iter().filter(|&&count| count > 0).count();
        assert_eq!(update.layers.len(), rewired, "{text}");
    }

    let groups = vec![(hidden(), Some(rigl))];
    let mut dst = config
        .init_groups(&net, groups, DstState::default())
        .unwrap();
    let mut optim = SgdConfig::new().init();
    let net = net.step(&mut dst, &mut optim, 1);
    let before = net.patterns();
    let net = net.step(&mut dst, &mut optim, 2);
    let moved = changed(&before, &net.patterns());
    assert_eq!((moved[0], moved[3]), (30, 15));
    assert!(
        moved[1] <= 5 && moved[2] <= 4 && moved[1] + moved[2] > 0,
        "{moved:?}"
    );
    assert_eq!(dst.rewired(), ["first", "hidden.0", "hidden.1", "head"]);
}

/// One budget for the network: the total stays, the layers' numbers do not.
#[test]
fn network_budgets_move_between_layers() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    for (name, config) in [
        ("gse", DstConfig::gse(100)),
        ("snfs", DstConfig::snfs(100).with_accumulate(1)),
        (
            "rigl",
            DstConfig::rigl(100).with_scope(Scope::Network { floor: 1 }),
        ),
    ] {
        let mut net = Mlp::new(&device);
        let mut optim = SgdConfig::new().init();
        let mut dst = config.with_every(1).init(&net).unwrap();
        let counts = |net: &Mlp| net.patterns().iter().map(Pattern::nnz).collect::<Vec<_>>();
        let before = counts(&net);
        for seed in 0..20 {
            net = net.step(&mut dst, &mut optim, seed);
            assert_eq!(counts(&net).iter().sum::<usize>(), 180, "{name}");
        }
        assert_ne!(counts(&net), before, "{name}");
    }
}

#[test]
fn no_layer_falls_below_the_floor() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let mut net = Mlp::new(&device);
    let mut optim = SgdConfig::new().init();
    let config = DstConfig::dadp()
        .with_every(1)
        .with_drop_fraction(0.3)
        .with_scope(Scope::Network { floor: 12 });
    let mut dst = config.init(&net).unwrap();
    for seed in 0..20 {
        net = net.step(&mut dst, &mut optim, seed);
    }
    let counts: Vec<usize> = net.patterns().iter().map(Pattern::nnz).collect();
    assert_eq!(counts, [12; 4]);
    // Layers that cannot lose more are no error.
    let update = dst.last_update().unwrap();
    assert!(update.layers.iter().all(|layer| layer.dropped == 0));
}

/// Share of connections on a path from an input to an output.
fn functional(net: &Mlp) -> f64 {
    let patterns = net.patterns();
    let names = ["first", "hidden.0", "hidden.1", "head"];
    let layers: Vec<_> = names.into_iter().zip(&patterns).collect();
    let graph = LayerGraph::chain(&layers).unwrap();
    let functional = graph.functional(&layers).unwrap();
    let on_paths: usize = functional
        .iter()
        .zip(&patterns)
        .map(|(functional, pattern)| functional.as_ref().unwrap().count(pattern))
        .sum();
    let all: usize = patterns.iter().map(Pattern::nnz).sum();
    on_paths as f64 / all as f64
}

/// Very sparse layers: guided updates connect them, unguided ones do not.
#[test]
fn guidance_opens_paths() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let thin = |seed| {
        let mut net = Mlp::new(&device);
        let layer = |d_input, d_output, nnz, seed| {
            SparseLinearConfig::new(d_input, d_output)
                .with_nnz(Some(nnz))
                .with_seed(Some(seed))
                .init(&device)
        };
        net.first = layer(30, 20, 12, seed);
        net.hidden = vec![layer(20, 25, 10, seed + 1), layer(25, 15, 8, seed + 2)];
        net.head = layer(15, 4, 4, seed + 3);
        net
    };
    let mut shares = [0.0, 0.0];
    for seed in 0..5 {
        for (guidance, share) in [None, Some(1.0)].into_iter().zip(&mut shares) {
            let mut net = thin(seed * 10);
            let config = DstConfig::set().with_every(1).with_guidance(guidance);
            let mut dst = config.with_seed(seed).init(&net).unwrap();
            let mut optim = SgdConfig::new().init();
            for step in 0..25 {
                net = net.step(&mut dst, &mut optim, step);
            }
            assert_eq!(net.patterns().iter().map(Pattern::nnz).sum::<usize>(), 34);
            *share += functional(&net) / 5.0;
        }
    }
    assert!(shares[1] > 0.8 && shares[1] > shares[0] + 0.3, "{shares:?}");
}

/// Gradient growth within what is reachable, and a graph that says how layers are connected.
#[test]
fn a_graph_may_be_given() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();

    #[derive(Module, Debug)]
    struct Branches {
        left: SparseLinear,
        right: SparseLinear,
    }
    let layer = |d_input, d_output| {
        SparseLinearConfig::new(d_input, d_output)
            .with_nnz(Some(6))
            .with_seed(Some(1))
            .init(&device)
    };
    let net = Branches {
        left: layer(8, 5),
        right: layer(8, 7),
    };
    let config = DstConfig::rigl(100).with_every(1).with_guidance(Some(1.0));
    let error = config.init(&net).unwrap_err().to_string();
    assert!(
        error.contains("layer `right` takes 8 features, but 5 come out"),
        "{error}"
    );

    let blocks = vec![
        Block::Layer {
            name: "left".into(),
            shape: [5, 8],
        },
        Block::Mixing {
            inputs: 5,
            outputs: 8,
        },
        Block::Layer {
            name: "right".into(),
            shape: [7, 8],
        },
    ];
    let graph = LayerGraph::new(blocks).unwrap();
    let mut dst = config.with_graph(Some(graph)).init(&net).unwrap();
    let x = tensor2(&[0.5; 16], [2, 8], &device);
    let loss = net.left.forward(x.clone()).sum() + net.right.forward(x).powi_scalar(2).sum();
    let grads = GradientsParams::from_grads(loss.backward(), &net);
    let mut optim = SgdConfig::new().init();
    let net = optim.step(0.1, net, grads);
    let net = dst.step_mut(net, &mut optim);
    let update = dst.last_update().unwrap();
    assert_eq!(update.skipped, None);
    assert_eq!((net.left.nnz(), net.right.nnz()), (6, 6));
}
