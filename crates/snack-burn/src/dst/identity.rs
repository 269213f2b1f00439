//! What tells the layer of a saved state from others.

use burn::tensor::TensorData;

use super::{DstError, Signals};
use crate::nn::layer_label;
use crate::pattern::Pattern;

/// What the state of a layer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerIdentity {
    pub shape: [u64; 2],
    pub nnz: u64,
    /// Connections that the layer began with.
    pub initial: u64,
    /// Of the coordinates.
    pub checksum: u64,
    /// What the rule asks for, see [`Signals::bits`].
    pub signals: u64,
}

impl LayerIdentity {
    pub fn new(pattern: &Pattern, initial: usize, signals: Signals) -> Self {
        Self {
            shape: pattern.shape().map(|size| size as u64),
            nnz: pattern.nnz() as u64,
            initial: initial as u64,
            checksum: checksum(pattern),
            signals: signals.bits(),
        }
    }

    pub fn to_data(self) -> TensorData {
        let [m, k] = self.shape;
        let words = vec![m, k, self.nnz, self.initial, self.checksum, self.signals];
        let length = words.len();
        TensorData::new(words, [length])
    }

    pub fn from_data(data: TensorData) -> Option<Self> {
        let words: Vec<u64> = data.try_into_vec().ok()?;
        let [m, k, nnz, initial, checksum, signals] = words.try_into().ok()?;
        Some(Self {
            shape: [m, k],
            nnz,
            initial,
            checksum,
            signals,
        })
    }

    /// Refuses a state that belongs to another pattern or to another rule.
    pub fn check(&self, layer: &str, expected: &Self) -> Result<(), DstError> {
        let layer = || layer.to_string();
        if self.shape != expected.shape {
            return Err(DstError::StateOfOtherShape {
                layer: layer(),
                expected: expected.shape,
                found: self.shape,
            });
        }
        if self.nnz != expected.nnz {
            return Err(DstError::StateMismatch {
                layer: layer(),
                expected: expected.nnz as usize,
                found: self.nnz as usize,
            });
        }
        if self.checksum != expected.checksum {
            return Err(DstError::StateOfOtherPattern { layer: layer() });
        }
        if self.signals != expected.signals {
            return Err(DstError::StateOfOtherRule {
                layer: layer(),
                found: Signals::names(self.signals),
                expected: Signals::names(expected.signals),
            });
        }
        Ok(())
    }
}

/// A hash of shape and coordinates (64-bit FNV-1a over 32-bit words).
fn checksum(pattern: &Pattern) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let offsets = pattern.row_offsets().iter().map(|&offset| offset as u64);
    let cols = (0..pattern.rows()).flat_map(|row| pattern.row(row));
    let words = offsets.chain(cols.map(|&col| u64::from(col)));
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ word).wrapping_mul(PRIME)
    })
}

/// Refuses a change of a layer's coordinates that the updater has not made.
pub(crate) fn check_unchanged(
    layer: &str,
    known: &Pattern,
    found: &Pattern,
) -> Result<(), DstError> {
    match known == found {
        true => Ok(()),
        false => Err(DstError::LayerChanged {
            layer: layer_label(layer).to_string(),
            expected: known.nnz(),
            found: found.nnz(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_it_counts() {
        let pattern =
            |flats: &[u64]| Pattern::from_sorted_flats([3, 4], flats.iter().copied()).unwrap();
        let saved = LayerIdentity::new(&pattern(&[1, 5, 6]), 3, Signals::AGES);
        assert_eq!(LayerIdentity::from_data(saved.to_data()), Some(saved));
        assert_eq!(saved.check("fc", &saved), Ok(()));
        let message = |flats: &[u64], signals| {
            let model = LayerIdentity::new(&pattern(flats), 3, signals);
            saved.check("", &model).unwrap_err().to_string()
        };
        assert_eq!(
            message(&[1, 5], Signals::AGES),
            "the saved state of layer `(model)` has 3 slots, expected 2"
        );
        // The same columns in other rows.
        assert!(message(&[1, 5, 10], Signals::AGES).contains("belongs to other coordinates"));
        assert!(message(&[1, 5, 7], Signals::AGES).contains("belongs to other coordinates"));
        assert!(
            message(&[1, 5, 6], Signals::FACTORS | Signals::SIGNS).contains(
                "is that of a rule that uses ages, this one uses the factors of the gradient and signs"
            )
        );
        let wide = Pattern::from_sorted_flats([4, 3], [1, 5, 6]).unwrap();
        let wide = LayerIdentity::new(&wide, 3, Signals::AGES);
        assert!(
            saved
                .check("fc", &wide)
                .unwrap_err()
                .to_string()
                .contains("3 x 4, expected 4 x 3")
        );
        // Where the layer began is what the state says, whatever the model has now.
        let later = LayerIdentity {
            initial: 2,
            ..saved
        };
        assert_eq!(later.check("fc", &saved), Ok(()));
    }
}
