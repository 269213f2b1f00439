//! Saving and loading: a pattern that loses its order, parameter ids that change so that the
//! optimizer starts cold, and layers that end up half loaded.

use burn::module::{Module, Param, list_param_ids};
use burn::nn::Linear;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::store::ModuleRecord;
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Tensor};
use snack_burn::prelude::*;

use crate::support::records::contents;
use crate::support::{assert_bits, assert_same_run, backends, flex, floats, tensor2};

const WIDTH: usize = 24;

/// Sparse layers at several depths of a model that is not only sparse.
#[derive(Module, Debug)]
pub struct Net {
    pub first: SparseLinear,
    pub blocks: Vec<SparseLinear>,
    pub head: Linear,
}

impl Net {
    /// A model of the given numbers of non-zeros.
    pub fn new(counts: [usize; 3], seed: u64, device: &Device) -> Self {
        let layer = |index: usize| {
            SparseLinearConfig::new(WIDTH, WIDTH)
                .with_nnz(Some(counts[index]))
                .with_seed(Some(seed + index as u64))
                .init(device)
        };
        let weight: Vec<f32> = (0..3 * WIDTH as u64)
            .map(|i| ((seed + i) as f32).sin())
            .collect();
        let head = Linear {
            weight: Param::from_tensor(tensor2(&weight, [WIDTH, 3], device)),
            bias: Some(Param::from_data([0.5f32, 0.0, -0.5], device)),
        };
        Self {
            first: layer(0),
            blocks: vec![layer(1), layer(2)],
            head,
        }
    }

    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let x = gelu(self.first.forward(x));
        let x = self
            .blocks
            .iter()
            .fold(x, |x, block| gelu(block.forward(x)));
        self.head.forward(x)
    }

    fn patterns(&self) -> Vec<Pattern> {
        let layers = std::iter::once(&self.first).chain(&self.blocks);
        layers.map(|layer| layer.pattern().clone()).collect()
    }
}

fn input(device: &Device) -> Tensor<2> {
    let numbers: Vec<f32> = (0..7 * WIDTH)
        .map(|i| ((i * i) as f32 * 0.37).sin())
        .collect();
    tensor2(&numbers, [7, WIDTH], device)
}

fn through_bytes(record: ModuleRecord) -> ModuleRecord {
    ModuleRecord::from_bytes(record.into_bytes().unwrap()).unwrap()
}

fn assert_same(case: &str, loaded: &Net, saved: &Net) {
    assert_eq!(loaded.patterns(), saved.patterns(), "{case}: patterns");
    assert_eq!(
        list_param_ids(loaded),
        list_param_ids(saved),
        "{case}: parameter ids"
    );
    let (loaded_contents, saved_contents) = (
        contents(loaded.clone().into_record()),
        contents(saved.clone().into_record()),
    );
    assert!(loaded_contents == saved_contents, "{case}: tensors");
    let x = input(&saved.first.values.device());
    assert_bits(case, &loaded.forward(x.clone()), &saved.forward(x));
}

#[test]
fn round_trip_with_the_same_and_with_other_numbers_of_non_zeros() {
    for backend in backends() {
        let saved = Net::new([100, 200, 50], 1, &backend.device);
        for counts in [[100, 200, 50], [101, 7, 576], [0, 1, 576]] {
            let case = format!("{counts:?} loads [100, 200, 50] on {}", backend.name);
            let net = Net::new(counts, 60, &backend.device);
            // The indices of the pattern that is about to be replaced are on the device by now.
            net.forward(input(&backend.device)).into_data();
            let record = through_bytes(saved.clone().into_record());
            let loaded = net.try_load_sparse_record(record).unwrap();
            assert_same(&case, &loaded, &saved);
        }
    }
}

#[test]
fn round_trip_of_layers_without_weights() {
    let Some(backend) = flex() else { return };
    let saved = Net::new([0, 576, 0], 1, &backend.device);
    let record = through_bytes(saved.clone().into_record());
    let loaded = Net::new([9, 9, 9], 2, &backend.device).load_sparse_record(record);
    assert_same("no weights", &loaded, &saved);
}

#[test]
fn round_trip_through_a_file() {
    let Some(backend) = flex() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.bpk");
    let saved = Net::new([100, 200, 50], 1, &backend.device);
    saved.clone().save_file(&path).unwrap();
    let loaded = Net::new([3, 4, 5], 2, &backend.device)
        .try_load_sparse_file(&path)
        .unwrap();
    assert_same("file", &loaded, &saved);

    let absent = folder.path().join("absent.bpk");
    let error = loaded
        .try_load_sparse_file(&absent)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("absent.bpk"),
        "the error names the file: {error}"
    );
}

/// A single layer has no path of its own.
#[test]
fn round_trip_of_a_bare_layer() {
    let Some(backend) = flex() else { return };
    let layer = |nnz, seed| {
        SparseLinearConfig::new(5, 4)
            .with_nnz(Some(nnz))
            .with_seed(Some(seed))
            .init(&backend.device)
    };
    let saved = layer(11, 1);
    let loaded = layer(3, 2)
        .try_load_sparse_record(saved.clone().into_record())
        .unwrap();
    assert_eq!(loaded.pattern(), saved.pattern());
    assert!(contents(loaded.into_record()) == contents(saved.into_record()));
}

#[test]
fn plain_loading_wants_equal_numbers_of_non_zeros() {
    for backend in backends() {
        let saved = Net::new([100, 200, 50], 1, &backend.device);
        let other = Net::new([100, 200, 50], 60, &backend.device);
        assert_ne!(other.patterns(), saved.patterns());
        other.forward(input(&backend.device)).into_data();
        let loaded = other.load_record(saved.clone().into_record());
        assert_same(&format!("plain load on {}", backend.name), &loaded, &saved);

        let error = Net::new([100, 201, 50], 60, &backend.device)
            .try_load_record(saved.into_record())
            .unwrap_err()
            .to_string();
        assert!(error.contains("blocks.0.values"), "{error}");
    }
}

fn step(net: Net, optim: &mut ModuleOptimizer) -> (Net, f64) {
    let device = net.first.values.device();
    let loss = net.forward(input(&device)).powi_scalar(2).mean();
    let grads = GradientsParams::from_grads(loss.backward(), &net);
    (optim.step(0.01, net, grads), floats(&loss)[0])
}

/// The loaded model continues with the moments of the saved one, since parameter ids survive.
#[test]
fn training_resumes_bit_for_bit() {
    for backend in backends() {
        let device = backend.autodiff();
        let adam = || AdamConfig::new().init();
        let (mut net, mut optim) = (Net::new([100, 200, 50], 1, &device), adam());
        for _ in 0..5 {
            (net, _) = step(net, &mut optim);
        }
        let record = through_bytes(net.clone().into_record());
        let state = optim.to_record();
        let size = state.len();
        let mut resumed = Net::new([8, 8, 8], 2, &device).load_sparse_record(record);
        let mut resumed_optim = adam().load_record(state);
        for number in 0..5 {
            let (losses, again);
            (net, losses) = step(net, &mut optim);
            (resumed, again) = step(resumed, &mut resumed_optim);
            let text = format!("step {number} after the load on {}", backend.name);
            assert_same_run(&backend, losses, again, &text);
        }
        assert_eq!(
            resumed_optim.to_record().len(),
            size,
            "no state of an id that is gone"
        );
        let ends = [net, resumed].map(|net| contents(net.into_record()));
        assert!(backend.is_cube() || ends[0] == ends[1], "{}", backend.name);
    }
}

/// Frozen stays frozen and tracked stays tracked, whatever the record's model did.
#[test]
fn loading_keeps_the_training_state_of_the_module() {
    let Some(backend) = flex() else { return };
    let saved = Net::new([100, 200, 50], 1, &backend.device);
    let mut net = Net::new([5, 6, 7], 2, &backend.autodiff());
    net.blocks[0] = net.blocks[0].clone().no_grad();
    let loaded = net.load_sparse_record(saved.into_record());
    assert!(loaded.first.values.is_require_grad());
    assert!(!loaded.blocks[0].values.is_require_grad());
    let y = loaded.forward(input(&backend.autodiff()));
    let grads = y.sum().backward();
    assert_eq!(
        loaded.first.values.grad(&grads).map(|grad| grad.dims()),
        Some([100])
    );
    assert!(loaded.blocks[0].values.grad(&grads).is_none());
    assert_eq!(
        loaded.blocks[1].values.grad(&grads).map(|grad| grad.dims()),
        Some([50])
    );
}
