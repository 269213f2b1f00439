use crate::{
    Gpt2Error,
    error::{TRAIN_WITH_LESS, on_device},
};
use burn::tensor::Device;
use example_support::DeviceFailure;
use snack_burn::{
    dist::{Communicator, DistError, communicators},
    prelude::DstError,
};
use std::{sync::Arc, thread};

/// Runs `act` for every device, in a thread of its own where there are several, and returns what the
/// first one returns.
///
/// # Errors
///
/// The error of the device that failed first, as far as that is known: those of devices that only heard
/// of it do not count. A panic, by which back ends say that they are out of memory, is
/// [`Gpt2Error::Device`], or [`Gpt2Error::RankPanicked`] where there are several devices.
pub fn on_devices<T: Send>(
    devices: &[Device],
    act: impl Fn(&Device, Arc<dyn Communicator>) -> Result<T, Gpt2Error> + Sync,
) -> Result<T, Gpt2Error> {
    let ranks = communicators(devices);
    if let ([device], [rank]) = (devices, &ranks[..]) {
        return on_device(TRAIN_WITH_LESS, || act(device, rank.clone()));
    }
    let act = &act;
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .into_iter()
            .zip(devices)
            .map(|(rank, device)| scope.spawn(move || act(device, rank)))
            .collect();
        let ranks = threads.len();
        let results = threads.into_iter().enumerate().map(|(rank, thread)| {
            thread.join().unwrap_or_else(|payload| {
                Err(Gpt2Error::RankPanicked {
                    rank,
                    ranks,
                    failure: DeviceFailure::of_panic(&*payload),
                })
            })
        });
        results.collect()
    });
    let mut first = None;
    let mut errors = Vec::new();
    for result in results {
        match result {
            Ok(value) => first = first.or(Some(value)),
            Err(error) => errors.push(error),
        }
    }
    // Who only heard of a failure comes last.
    errors.sort_by_key(is_hearsay);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(first.expect("there is a device")),
    }
}

fn is_hearsay(error: &Gpt2Error) -> bool {
    matches!(
        error,
        Gpt2Error::Ranks(DistError::RankLost { .. })
            | Gpt2Error::Topology(DstError::Ranks(DistError::RankLost { .. }))
    )
}
