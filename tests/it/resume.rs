//! A run that is interrupted and continued differs from one that was not: checkpoints, topology
//! updates and optimizer moments together.

use std::fs;

use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Device;
use snack_burn::prelude::*;

use crate::records::Net;
use crate::support::records::contents;
use crate::support::{assert_same_run, backends, flex, floats, tensor2};

const COUNTS: [usize; 3] = [100, 200, 50];

/// All that a run holds.
struct Run {
    net: Net,
    optim: ModuleOptimizer,
    dst: Dst,
}

fn updates() -> DstConfig {
    DstConfig::set()
        .with_every(4)
        .with_drop_fraction(0.3)
        .with_stop(Some(30))
        .with_seed(5)
}

impl Run {
    fn new(counts: [usize; 3], seed: u64, device: &Device) -> Self {
        let net = Net::new(counts, seed, device);
        Self {
            dst: updates().init(&net).unwrap(),
            net,
            optim: AdamWConfig::new().init(),
        }
    }

    /// Continues from a file, with a model that was made for other numbers of non-zeros.
    fn load(checkpoint: Checkpoint, device: &Device) -> Self {
        let net = Net::new([9, 9, 9], 99, device)
            .try_load_sparse_record(checkpoint.model)
            .unwrap();
        Self {
            dst: updates().init_from(&net, checkpoint.dst).unwrap(),
            net,
            optim: AdamWConfig::new().init().load_record(checkpoint.optimizer),
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            model: self.net.clone().into_record(),
            optimizer: self.optim.to_record(),
            dst: self.dst.state(),
            user: Default::default(),
        }
    }

    fn step(&mut self) -> f64 {
        let device = self.net.first.values.device();
        let step = self.dst.steps();
        let numbers: Vec<f32> = (0..8 * 24)
            .map(|i| ((i + 31 * step) as f32 * 0.47).sin())
            .collect();
        let loss = self
            .net
            .forward(tensor2(&numbers, [8, 24], &device))
            .powi_scalar(2)
            .mean();
        let grads = GradientsParams::from_grads(loss.backward(), &self.net);
        let net = self.optim.step(0.02, self.net.clone(), grads);
        (self.net, self.optim) = self.dst.step(net, self.optim.clone());
        floats(&loss)[0]
    }
}

#[test]
fn resuming_equals_not_stopping() {
    let folder = tempfile::tempdir().unwrap();
    for backend in backends() {
        let device = backend.autodiff();
        let mut run = Run::new(COUNTS, 1, &device);
        for _ in 0..18 {
            run.step();
        }
        let path = folder.path().join(format!("{}.checkpoint", backend.name));
        run.checkpoint().save(&path).unwrap();
        let mut resumed = Run::load(Checkpoint::load(&path).unwrap(), &device);
        assert_eq!(resumed.dst.state(), run.dst.state());
        for step in 18..40 {
            let text = format!("step {step} on {}", backend.name);
            assert_same_run(&backend, run.step(), resumed.step(), &text);
            assert_eq!(run.dst.last_update(), resumed.dst.last_update(), "{text}");
        }
        let ends = [run.net, resumed.net].map(|net| contents(net.into_record()));
        assert!(backend.is_cube() || ends[0] == ends[1], "{}", backend.name);
        let sizes = [run.optim, resumed.optim].map(|optim| optim.to_record().len());
        assert_eq!(sizes[0], sizes[1], "{}", backend.name);
    }
}

/// Every byte of a checkpoint matters: none may change without an error.
#[test]
fn damaged_and_truncated_files() {
    let Some(backend) = flex() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.checkpoint");
    Run::new(COUNTS, 1, &backend.autodiff())
        .checkpoint()
        .save(&path)
        .unwrap();
    let bytes = fs::read(&path).unwrap();
    let refused = |text: &str, bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let error = Checkpoint::load(&path)
            .map(|_| ())
            .expect_err(text)
            .to_string();
        assert!(error.contains("run.checkpoint"), "{text}: {error}");
    };
    for length in [0, 1, 9, 10, 300, bytes.len() / 2, bytes.len() - 1] {
        refused(&format!("cut to {length} bytes"), &bytes[..length]);
    }
    let mut damaged = bytes.clone();
    damaged[0] ^= 1;
    refused("another magic number", &damaged);
    // The values of the first layer are somewhere in the second half.
    let mut damaged = bytes.clone();
    let needle: Vec<u8> = Net::new(COUNTS, 1, &backend.device)
        .first
        .values
        .val()
        .into_data()
        .as_bytes()[..16]
        .to_vec();
    let at = bytes
        .windows(16)
        .position(|window| window == needle)
        .unwrap();
    damaged[at] ^= 1;
    refused("a bit of a value", &damaged);

    fs::write(&path, &bytes).unwrap();
    Checkpoint::load(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let error = Checkpoint::load(&path).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("run.checkpoint"), "{error}");
}
