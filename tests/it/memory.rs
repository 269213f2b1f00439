//! Anything of the size of the dense weight: peak memory of fresh processes that build and train
//! layers whose dense weight would take 40 GB and more.

use std::env;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, Tensor};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;
use snack_burn::tensor::GradientFactors;

use crate::support::{Backend, backends, flex, panic_text, tensor2, uniform};

/// Set in a child process to the name of the test that it is to measure.
const CHILD: &str = "SNACK_TEST_MEASURED";
const MEGABYTE: usize = 1 << 20;

/// Bytes before the work and at its peak.
struct Peak {
    before: usize,
    resident: usize,
    /// Address space, which lazily allocated pages take as well.
    reserved: usize,
}

impl Peak {
    fn now(before: usize) -> Self {
        Self {
            before,
            resident: status("VmHWM"),
            reserved: status("VmPeak"),
        }
    }
}

/// A field of this process's status, in bytes.
fn status(field: &str) -> usize {
    let text = fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    let kilobytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes * 1024
}

/// Runs the work of a test in a process of its own. There it runs and returns nothing; here the
/// measurement of the process comes back.
fn measured(test: &str, work: impl FnOnce()) -> Option<Peak> {
    flex()?;
    if env::var(CHILD).as_deref() == Ok(test) {
        let before = status("VmHWM");
        work();
        let peak = Peak::now(before);
        println!(
            "measured {} {} {}",
            peak.before, peak.resident, peak.reserved
        );
        return None;
    }
    let text = output_of_child(test);
    let line = text
        .split("measured ")
        .nth(1)
        .unwrap_or_else(|| panic!("no measurement: {text}"));
    let mut numbers = line
        .split_whitespace()
        .map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap();
    let peak = Peak {
        before: next(),
        resident: next(),
        reserved: next(),
    };
    eprintln!(
        "{test}: {} MB resident, {} MB before",
        peak.resident / MEGABYTE,
        peak.before / MEGABYTE
    );
    Some(peak)
}

/// What a test prints that runs in a process of its own.
fn output_of_child(test: &str) -> String {
    let output = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            &format!("memory::{test}"),
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD, test)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{test} failed in its own process:\n{text}\n{errors}"
    );
    text
}

/// One step of SGD on a square layer; the gradient must hold the non-zeros alone.
fn train_once(size: usize, nnz: usize, batch: usize) {
    let device = flex().unwrap().autodiff();
    let layer = SparseLinearConfig::new(size, size)
        .with_nnz(Some(nnz))
        .with_seed(Some(1))
        .init(&device);
    let x = Tensor::<2>::ones([batch, size], &device).require_grad();
    let loss = layer.forward(x.clone()).powi_scalar(2).mean();
    let grads = loss.backward();
    assert_eq!(
        layer.values.grad(&grads).map(|grad| grad.dims()),
        Some([nnz])
    );
    assert_eq!(x.grad(&grads).map(|grad| grad.dims()), Some([batch, size]));
    let grads = GradientsParams::from_grads(grads, &layer);
    let trained = SgdConfig::new().init().step(0.1, layer, grads);
    assert_eq!(trained.nnz(), nnz);
    assert!(trained.values.val().sum().into_scalar::<f32>().is_finite());
}

#[test]
fn a_million_weights_of_ten_billion() {
    let peak = measured("a_million_weights_of_ten_billion", || {
        train_once(100_000, 1_000_000, 4)
    });
    if let Some(peak) = peak {
        assert!(
            peak.resident < 1000 * MEGABYTE,
            "{} MB",
            peak.resident / MEGABYTE
        );
    }
}

/// The layer on which others run out of memory in the backward pass.
#[test]
fn a_backward_pass_in_proportion_to_the_non_zeros() {
    let (size, nnz, batch) = (110_000, 860_000, 64);
    let peak = measured("a_backward_pass_in_proportion_to_the_non_zeros", || {
        train_once(size, nnz, batch);
    });
    if let Some(peak) = peak {
        let limit = peak.before + 4 * (nnz * 12 + 2 * (size + size) * batch * 4);
        let [found, limit] = [peak.resident, limit].map(|bytes| bytes / MEGABYTE);
        assert!(found < limit, "{found} MB, allowed {limit} MB");
    }
}

#[test]
fn a_pattern_of_four_million() {
    let peak = measured("a_pattern_of_four_million", || {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let pattern = Pattern::random([200_000; 2], 4_000_000, &mut rng).unwrap();
        assert_eq!(pattern.nnz(), 4_000_000);
        assert!(pattern.flats().is_sorted_by(|a, b| a < b));
    });
    if let Some(peak) = peak {
        assert!(
            peak.resident < 500 * MEGABYTE,
            "{} MB",
            peak.resident / MEGABYTE
        );
    }
}

/// The largest gradients of a matrix of 16 384 columns in panels of 1 MiB, of all and of each row.
fn grow(rows: usize, device: &Device) {
    let (shape, batch, nnz) = ([rows, 16_384], 8, 10 * rows);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let excluded = Pattern::random(shape, nnz, &mut rng).unwrap();
    let [g, x] = shape.map(|width| {
        let values = uniform(batch * width, &mut rng);
        tensor2(&values, [batch, width], device)
    });
    let factors = GradientFactors::new(g, x).with_scratch_bytes(MEGABYTE);
    let found = factors.top_k(&excluded, 10_000).unwrap();
    assert_eq!(found.len(), 10_000);
    let found = factors.top_k_per_row(&excluded, &vec![1; rows]).unwrap();
    assert_eq!(found.len(), rows);
}

/// The dense gradient would take 537 MB.
#[test]
fn a_growth_step_in_panels() {
    let rows = 8192;
    let peak = measured("a_growth_step_in_panels", || {
        grow(rows, &flex().unwrap().device);
    });
    if let Some(peak) = peak {
        let found = (peak.resident - peak.before) / MEGABYTE;
        assert!(found < 32, "{found} MB");
    }
}

/// The same on devices, whose allocators reserve pages of their own choice. The dense gradient
/// would take 67 MB.
#[test]
fn a_growth_step_in_panels_of_device_memory() {
    let test = "a_growth_step_in_panels_of_device_memory";
    let devices: Vec<_> = backends().into_iter().filter(Backend::is_cube).collect();
    if env::var(CHILD).as_deref() == Ok(test) {
        for Backend { name, device } in devices {
            grow(1024, &device);
            let usage = device.memory_pool_usage().unwrap();
            println!("measured {name} {}", usage.bytes_reserved);
        }
        return;
    }
    if devices.is_empty() {
        return;
    }
    let text = output_of_child(test);
    let lines: Vec<_> = text.split("measured ").skip(1).collect();
    assert_eq!(lines.len(), devices.len(), "{text}");
    for line in lines {
        let bytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        eprintln!("{test}: {} MB reserved", bytes / MEGABYTE);
        assert!(bytes < 48 * MEGABYTE, "{line}");
    }
}

/// What cannot be dense is refused before anything is allocated.
#[test]
fn refusing_a_dense_form() {
    let peak = measured("refusing_a_dense_form", || {
        let device = flex().unwrap().device;
        let triples = [(1, 5, 1.0f32)];
        let shape = [2, 1 << 30];
        let matrix = SparseTensor::from_triples(shape, triples, Duplicates::Sum, &device).unwrap();
        let attempt = catch_unwind(AssertUnwindSafe(|| matrix.to_dense()));
        let text = panic_text(attempt.map(|_| ()).unwrap_err());
        assert!(
            text.contains("a dense matrix has at most 2147483647 elements"),
            "{text}"
        );
    });
    if let Some(peak) = peak {
        let reserved = peak.reserved / MEGABYTE;
        assert!(
            reserved < 4000,
            "{reserved} MB of address space for what is refused"
        );
    }
}
