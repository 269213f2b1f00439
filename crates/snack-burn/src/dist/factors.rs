//! The factors of gradients of all ranks.

use super::{Communicator, DistError};
use crate::tap::Part;

/// Replaces the factors that each layer's backward passes left on this rank by those of all ranks:
/// pass by pass, rows in the order of ranks, scaled to the mean of the ranks' gradients. That is what
/// one rank would have kept of batches that hold those of all ranks.
///
/// Lists of the largest entries of each rank would be smaller, but do not contain those of the sum.
pub(crate) fn gather_parts(
    ranks: &dyn Communicator,
    layers: &mut [(&str, Vec<Part>)],
) -> Result<(), DistError> {
    if ranks.ranks() == 1 {
        return Ok(());
    }
    check_passes(ranks, layers)?;
    let share = 1.0 / ranks.ranks() as f64;
    for (_, parts) in layers {
        let factors = parts.drain(..).flat_map(|Part { g, x }| {
            let [g, x] = [g, x].map(|factor| factor.detach().without_autodiff());
            [g * share, x]
        });
        let factors: Vec<_> = factors.collect();
        if factors.is_empty() {
            continue;
        }
        let mut factors = ranks.all_gather_rows(factors)?.into_iter();
        while let (Some(g), Some(x)) = (factors.next(), factors.next()) {
            parts.push(Part { g, x });
        }
    }
    Ok(())
}

/// The same number of passes went through each layer on every rank.
pub(super) fn check_passes(
    ranks: &dyn Communicator,
    layers: &[(&str, Vec<Part>)],
) -> Result<(), DistError> {
    const OPERATION: &str = "count passes";
    let counts = layers.iter().map(|(_, parts)| parts.len() as u64);
    let bytes: Vec<u8> = counts.flat_map(u64::to_le_bytes).collect();
    let messages = ranks.all_gather(OPERATION, bytes)?;
    let counts = messages.iter().map(|bytes| bytes.as_chunks::<8>().0);
    let counts: Vec<_> = counts.collect();
    for (rank, found) in counts.iter().enumerate() {
        if found.len() != layers.len() {
            return Err(DistError::DamagedMessage {
                rank,
                operation: OPERATION,
                reason: format!("it has {} layers, expected {}", found.len(), layers.len()),
            });
        }
        let pairs = found.iter().zip(counts[0]).zip(layers);
        for ((found, expected), (layer, _)) in pairs {
            if found != expected {
                let [expected, found] =
                    [expected, found].map(|count| u64::from_le_bytes(*count) as usize);
                return Err(DistError::PassesDiffer {
                    layer: layer.to_string(),
                    rank,
                    expected,
                    found,
                });
            }
        }
    }
    Ok(())
}
