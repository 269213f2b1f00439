//! The one permutation that a topology update applies to every tensor of slots.

use burn::tensor::{Bytes, TensorData};

/// Where the content of a new slot comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The slot of the same coordinate before the update.
    Old(u32),
    /// Nowhere: the coordinate is new.
    Fresh,
}

/// New slot to old slot, for all slots of one layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remap {
    /// Number of slots before the update.
    pub old_len: usize,
    /// Source of every new slot.
    pub source: Vec<Source>,
}

impl Remap {
    /// The tensor of slots after the update: survivors keep their bits, fresh slots are zero.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not of shape `[old_len]`, or holds elements of less than a byte.
    pub fn apply(&self, data: TensorData) -> TensorData {
        let (bytes, shape, dtype) = data.into_parts();
        assert_eq!(
            shape.as_slice(),
            [self.old_len],
            "a tensor of slots must have one element per slot before the update"
        );
        let size = dtype.size();
        let mut out = vec![0u8; self.source.len() * size];
        for (new, source) in out.chunks_exact_mut(size).zip(&self.source) {
            if let Source::Old(slot) = *source {
                let start = slot as usize * size;
                new.copy_from_slice(&bytes[start..start + size]);
            }
        }
        TensorData::from_bytes(Bytes::from_bytes_vec(out), [self.source.len()], dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Source::{Fresh, Old};

    #[test]
    fn survivors_move_and_fresh_slots_are_zero() {
        let remap = Remap {
            old_len: 3,
            source: vec![Fresh, Old(0), Old(2), Fresh],
        };
        let moved = remap.apply(TensorData::from([1.5f32, 2.5, f32::NAN]));
        let moved: Vec<f32> = moved.iter::<f32>().collect();
        assert_eq!(moved[..2], [0.0, 1.5]);
        assert!(moved[2].is_nan());
        assert_eq!(moved[3], 0.0);
    }
}
