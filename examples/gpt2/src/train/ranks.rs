use crate::{
    Gpt2Error,
    error::{TRAIN_WITH_LESS, on_device},
};
use burn::tensor::Device;
use example_support::DeviceFailure;
use snack_burn::{
    dist::{Communicator, DistError, Threads, communicators_with_patience},
    prelude::DstError,
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        mpsc::{Receiver, channel},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a failure waits for the other devices to end.
const GRACE: Duration = Duration::from_secs(30);

/// Runs `act` for every device, in a thread of its own where there are several, and returns what the
/// first one returns.
///
/// A device that fails ends the others. One that hangs does not keep this function from returning the
/// error of those that waited for it; its thread stays behind until the process ends.
///
/// # Errors
///
/// The error of the device that failed first. Those of devices that only waited in vain, or heard of a
/// failure, count if there is no other. A panic, by which back ends say that they are out of memory, is
/// [`Gpt2Error::Device`], or [`Gpt2Error::RankPanicked`] where there are several devices.
pub fn on_devices<T: Send + 'static>(
    devices: &[Device],
    act: impl Fn(&Device, Arc<dyn Communicator>) -> Result<T, Gpt2Error> + Send + Sync + 'static,
) -> Result<T, Gpt2Error> {
    on_devices_with_patience(devices, Threads::PATIENCE, act)
}

/// As [`on_devices`]; devices wait for each other for no longer than `patience`.
///
/// # Errors
///
/// As [`on_devices`].
pub fn on_devices_with_patience<T: Send + 'static>(
    devices: &[Device],
    patience: Duration,
    act: impl Fn(&Device, Arc<dyn Communicator>) -> Result<T, Gpt2Error> + Send + Sync + 'static,
) -> Result<T, Gpt2Error> {
    let group = communicators_with_patience(devices, patience);
    if let ([device], [rank]) = (devices, &group[..]) {
        return on_device(TRAIN_WITH_LESS, || act(device, rank.clone()));
    }
    let ranks = group.len();
    let act = Arc::new(act);
    let (sender, results) = channel();
    for (communicator, device) in group.into_iter().zip(devices.iter().cloned()) {
        let (act, sender) = (act.clone(), sender.clone());
        thread::spawn(move || {
            let rank = communicator.rank();
            let result = catch_unwind(AssertUnwindSafe(|| act(&device, communicator)));
            let result = result.unwrap_or_else(|payload| {
                Err(Gpt2Error::RankPanicked {
                    rank,
                    ranks,
                    failure: DeviceFailure::of_panic(&*payload),
                })
            });
            // Nobody listens any more if this comes long after a failure.
            sender.send((rank, result)).ok();
        });
    }
    drop(sender);
    first_of(&results, ranks, patience.min(GRACE))
}

/// The value of rank 0, or the error that explains the failure best of those that come within `grace`
/// after the first.
fn first_of<T>(
    results: &Receiver<(usize, Result<T, Gpt2Error>)>,
    ranks: usize,
    grace: Duration,
) -> Result<T, Gpt2Error> {
    let mut first = None;
    let mut errors = Vec::new();
    let mut deadline: Option<Instant> = None;
    for _ in 0..ranks {
        let received = match deadline {
            None => results.recv().ok(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                results.recv_timeout(left).ok()
            }
        };
        match received {
            Some((0, Ok(value))) => first = Some(value),
            Some((_, Ok(_))) => {}
            Some((_, Err(error))) => {
                deadline.get_or_insert_with(|| Instant::now() + grace);
                errors.push(error);
            }
            None => break,
        }
    }
    errors.sort_by_key(hearsay);
    match errors.into_iter().next() {
        Some(error) => Err(error),
        None => Ok(first.expect("without an error all devices return")),
    }
}

/// How little an error says about its cause.
fn hearsay(error: &Gpt2Error) -> u8 {
    let (Gpt2Error::Ranks(error) | Gpt2Error::Topology(DstError::Ranks(error))) = error else {
        return 0;
    };
    match error {
        DistError::RankLost { .. } => 2,
        DistError::TimedOut { .. } => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(rank: usize) -> Gpt2Error {
        let reason = "it has ended".into();
        DistError::RankLost {
            rank,
            ranks: 3,
            reason,
        }
        .into()
    }

    fn timed_out() -> Gpt2Error {
        DistError::TimedOut {
            waiting: 0,
            operation: "test",
            missing: vec![1],
            waited: GRACE,
        }
        .into()
    }

    fn panicked(rank: usize) -> Gpt2Error {
        Gpt2Error::RankPanicked {
            rank,
            ranks: 3,
            failure: DeviceFailure::new("test"),
        }
    }

    /// What is reported of these errors of devices, when no others come.
    fn reported<const N: usize>(errors: [(usize, Gpt2Error); N]) -> String {
        let (sender, receiver) = channel::<(usize, Result<(), _>)>();
        for (rank, error) in errors {
            sender.send((rank, Err(error))).unwrap();
        }
        // The sender is still there, like that of a device that hangs.
        let error = first_of(&receiver, 3, Duration::ZERO).unwrap_err();
        drop(sender);
        error.to_string()
    }

    #[test]
    fn the_first_cause_counts_and_then_the_first_complaint() {
        let first = reported([(2, panicked(2)), (0, panicked(0)), (1, lost(2))]);
        assert_eq!(first, panicked(2).to_string());
        let late = reported([(0, timed_out()), (2, lost(0)), (1, panicked(1))]);
        assert_eq!(late, panicked(1).to_string());
        let hung = reported([(2, lost(0)), (0, timed_out())]);
        assert_eq!(hung, timed_out().to_string());
        assert_eq!(reported([(2, lost(1))]), lost(1).to_string());
    }
}
