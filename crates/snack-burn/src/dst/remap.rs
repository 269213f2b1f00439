//! The one permutation that a topology update applies to every tensor of slots.

use burn::tensor::{Bytes, DType, TensorData};

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
    /// The slots that come from nowhere, increasing.
    pub fn fresh(&self) -> Vec<u32> {
        let slots = (0u32..).zip(&self.source);
        slots
            .filter(|(_, source)| **source == Source::Fresh)
            .map(|(slot, _)| slot)
            .collect()
    }

    /// The list of slots after the update, with `fresh` where a slot is new.
    ///
    /// # Panics
    ///
    /// Panics if `list` does not have `old_len` elements.
    pub fn apply_list<T: Copy>(&self, list: &[T], fresh: T) -> Vec<T> {
        assert_eq!(
            list.len(),
            self.old_len,
            "a list of slots must have one element per slot before the update"
        );
        let source = self.source.iter().map(|source| match source {
            Source::Old(slot) => list[*slot as usize],
            Source::Fresh => fresh,
        });
        source.collect()
    }

    /// The tensor of slots after the update: survivors keep their bits, fresh slots are zero.
    ///
    /// # Panics
    ///
    /// Panics if `data` is not of shape `[old_len]`, or quantized.
    pub fn apply(&self, data: TensorData) -> TensorData {
        self.apply_with(data, None)
    }

    /// As [`apply`](Self::apply), with the given numbers in the fresh slots, in their order.
    ///
    /// # Panics
    ///
    /// As [`apply`](Self::apply), and if there is not one number per fresh slot.
    pub(crate) fn apply_with(&self, data: TensorData, fresh: Option<&[f32]>) -> TensorData {
        let (bytes, shape, dtype) = data.into_parts();
        assert_eq!(
            shape.as_slice(),
            [self.old_len],
            "a tensor of slots must have one element per slot before the update"
        );
        let mut out = vec![0; self.source.len() * dtype.size()];
        self.write(&bytes, dtype, fresh, &mut out);
        TensorData::from_bytes(Bytes::from_bytes_vec(out), [self.source.len()], dtype)
    }

    /// The elements after the update, in place of zeros: `bytes` are those before it, and `out` has
    /// room for as many as there are slots.
    ///
    /// # Panics
    ///
    /// Panics if the numbers are quantized, or there is not one per fresh slot.
    pub(crate) fn write(&self, bytes: &[u8], dtype: DType, fresh: Option<&[f32]>, out: &mut [u8]) {
        let fresh =
            fresh.map(|fresh| TensorData::new(fresh.to_vec(), [fresh.len()]).convert_dtype(dtype));
        let fresh = fresh.as_ref().map(TensorData::as_bytes);
        match dtype.size() {
            1 => self.gather::<1>(bytes, fresh, out),
            2 => self.gather::<2>(bytes, fresh, out),
            4 => self.gather::<4>(bytes, fresh, out),
            8 => self.gather::<8>(bytes, fresh, out),
            size => unreachable!("a number of {size} bytes"),
        }
    }
}

impl Remap {
    /// Elements of `N` bytes.
    fn gather<const N: usize>(&self, bytes: &[u8], fresh: Option<&[u8]>, out: &mut [u8]) {
        let (old, _) = bytes.as_chunks::<N>();
        let (out, _) = out.as_chunks_mut::<N>();
        let mut fresh = fresh.map(|fresh| fresh.as_chunks::<N>().0.iter());
        for (element, source) in out.iter_mut().zip(&self.source) {
            match (source, &mut fresh) {
                (Source::Old(slot), _) => *element = old[*slot as usize],
                (Source::Fresh, None) => {}
                (Source::Fresh, Some(fresh)) => {
                    *element = *fresh.next().expect("one number per fresh slot");
                }
            }
        }
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
