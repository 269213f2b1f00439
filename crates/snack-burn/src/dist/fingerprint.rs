//! Whether all ranks have the same patterns.

use core::fmt;

use burn::module::Module;

use super::wire::{Reader, Writer};
use super::{Communicator, DistError};
use crate::nn::{FoundLayer, find_layers};
use crate::pattern::Pattern;
use crate::tensor::DevicePattern;

/// A hash of patterns: shapes and coordinates, whatever the values are.
///
/// It is a function of the coordinates alone (64-bit FNV-1a over words), the same on every platform
/// and in every version that reads the same checkpoints. It finds accidents; it does not withstand an
/// attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    const START: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;

    /// Of one pattern.
    pub fn of_pattern(pattern: &Pattern) -> Self {
        let shape = pattern.shape().map(|size| size as u64);
        let offsets = pattern.row_offsets().iter().map(|&offset| offset as u64);
        let cols = (0..pattern.rows()).flat_map(|row| pattern.row(row));
        let cols = cols.map(|&col| u64::from(col));
        Self(
            shape
                .into_iter()
                .chain(offsets)
                .chain(cols)
                .fold(Self::START, mix),
        )
    }

    /// Of the patterns of all sparse layers of a model, in the order of the model.
    pub fn of_model<M: Module>(model: &M) -> Self {
        let layers = find_layers(model).into_iter();
        let patterns = layers.map(|layer| Self::of_placed(&layer.pattern).0);
        Self(patterns.fold(Self::START, mix))
    }

    /// As [`of_pattern`](Self::of_pattern), once for each pattern.
    pub(super) fn of_placed(pattern: &DevicePattern) -> Self {
        Self(pattern.hash(|pattern| Self::of_pattern(pattern).0))
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(Fingerprint::PRIME)
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Compares the patterns of all sparse layers over ranks; every rank finds the same difference.
///
/// # Errors
///
/// [`DistError::PatternsDiffer`] with the first layer that differs on the first rank that differs from
/// rank 0, [`DistError::LayersDiffer`] if it has other layers, and as all operations of a
/// [`Communicator`].
pub fn check_patterns<M: Module>(ranks: &dyn Communicator, model: &M) -> Result<(), DistError> {
    match ranks.ranks() {
        1 => Ok(()),
        _ => check_same(ranks, &find_layers(model)),
    }
}

/// As [`check_patterns`], of layers that are found already.
pub(crate) fn check_same(ranks: &dyn Communicator, found: &[FoundLayer]) -> Result<(), DistError> {
    if ranks.ranks() == 1 {
        return Ok(());
    }
    let own = found.iter().map(|layer| {
        let fingerprint = Fingerprint::of_placed(&layer.pattern);
        (layer.name.clone(), fingerprint)
    });
    compare(ranks, own.collect())
}

/// Compares paths and fingerprints of layers.
pub(super) fn compare(
    ranks: &dyn Communicator,
    own: Vec<(String, Fingerprint)>,
) -> Result<(), DistError> {
    const OPERATION: &str = "compare patterns";
    let mut writer = Writer::default();
    for (layer, fingerprint) in own {
        writer.text(&layer);
        writer.number(fingerprint.0);
    }
    let messages = ranks.all_gather(OPERATION, writer.into_bytes())?;
    let mut lists = Vec::with_capacity(messages.len());
    for (rank, bytes) in messages.iter().enumerate() {
        lists.push(read(bytes).ok_or_else(|| DistError::DamagedMessage {
            rank,
            operation: OPERATION,
            reason: "it is no list of layers and fingerprints".into(),
        })?);
    }
    let expected = &lists[0];
    for (rank, found) in lists.iter().enumerate().skip(1) {
        for index in 0..expected.len().max(found.len()) {
            let [expected, found] = [expected, found].map(|list| list.get(index));
            match (expected, found) {
                (Some((layer, expected)), Some((name, found))) if layer == name => {
                    if expected != found {
                        return Err(DistError::PatternsDiffer {
                            layer: layer.clone(),
                            rank,
                            expected: *expected,
                            found: *found,
                        });
                    }
                }
                (expected, found) => {
                    let name = |layer: Option<&(String, _)>| layer.map(|(name, _)| name.clone());
                    return Err(DistError::LayersDiffer {
                        rank,
                        index,
                        expected: name(expected),
                        found: name(found),
                    });
                }
            }
        }
    }
    Ok(())
}

fn read(bytes: &[u8]) -> Option<Vec<(String, Fingerprint)>> {
    let mut reader = Reader::new(bytes);
    let mut list = Vec::new();
    while !reader.is_at_end() {
        list.push((reader.text()?, Fingerprint(reader.number()?)));
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shape_rows_and_columns_count() {
        let of = |shape, flats: &[u64]| {
            let pattern = Pattern::from_sorted_flats(shape, flats.iter().copied());
            Fingerprint::of_pattern(&pattern.unwrap())
        };
        let expected = of([3, 4], &[1, 5, 6]);
        assert_eq!(of([3, 4], &[1, 5, 6]), expected);
        for other in [
            of([3, 4], &[1, 5, 7]),
            of([3, 4], &[1, 5, 10]),
            of([3, 4], &[1, 5]),
            // The same rows and columns in a wider matrix.
            of([3, 5], &[1, 6, 7]),
        ] {
            assert_ne!(other, expected);
        }
    }

    /// Stable over versions and platforms.
    #[test]
    fn a_known_fingerprint() {
        let empty = Fingerprint::of_pattern(&Pattern::empty([0, 0]).unwrap());
        let hash = [0, 0, 0].into_iter().fold(Fingerprint::START, mix);
        assert_eq!(empty, Fingerprint(hash));
        assert_eq!(Fingerprint(0xabc).to_string(), "0000000000000abc");
    }
}
