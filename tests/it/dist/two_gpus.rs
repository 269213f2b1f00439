//! What the tests of threads claim, over Burn's collectives.

use std::sync::{Mutex, MutexGuard, PoisonError};

use burn::tensor::Device;

use super::group::{host, in_time};
use super::{failures, reductions, training, windows};
use crate::support::flex;

static DEVICES: Mutex<()> = Mutex::new(());

/// Keeps the devices for one test: groups that run at once would meet in each other's reductions.
pub fn reserve() -> MutexGuard<'static, ()> {
    DEVICES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn on_two_gpus(act: impl FnOnce(&[Device]) + Send + 'static) {
    let _reserved = reserve();
    let devices = [Device::cuda(0), Device::cuda(1)];
    in_time(move || {
        reductions::assert_collective(&devices);
        act(&devices);
    });
}

#[test]
#[ignore = "needs two CUDA devices"]
fn reductions_are_those_of_the_host() {
    on_two_gpus(reductions::lists_are_reduced);
}

#[test]
#[ignore = "needs two CUDA devices"]
fn slots_have_the_mean_of_both() {
    on_two_gpus(reductions::slots_are_averaged);
}

#[test]
#[ignore = "needs two CUDA devices"]
fn rows_are_gathered_exactly() {
    on_two_gpus(reductions::rows_are_gathered);
}

#[test]
#[ignore = "needs two CUDA devices"]
fn gradients_cost_four_bytes_each() {
    on_two_gpus(training::one_number_per_connection);
}

#[test]
#[ignore = "needs two CUDA devices"]
fn two_learn_like_one_with_the_whole_batch() {
    on_two_gpus(training::learn_like_one);
}

#[test]
#[ignore = "needs two CUDA devices"]
fn factors_are_those_of_both() {
    on_two_gpus(|devices| windows::factors_are_joined(devices, 1e-5));
}

/// The host decides the same number of connections, not the same ones: scores are rounded otherwise.
#[test]
#[ignore = "needs two CUDA devices"]
fn patterns_stay_equal_through_ten_updates() {
    on_two_gpus(|devices| {
        let reference = match flex() {
            Some(_) => host(2),
            None => devices[..1].to_vec(),
        };
        training::ten_updates_of_rigl(devices, &reference);
    });
}

#[test]
#[ignore = "needs two CUDA devices"]
fn a_death_ends_the_other() {
    on_two_gpus(failures::a_death_is_heard);
}
