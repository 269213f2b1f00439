//! Reading neighbouring entries at once.
//!
//! A pack is a group of [`PACK`] entries that begins at a multiple of it, so that one load brings
//! the values of all and another their coordinates: the routines for small batches are bound by
//! instructions, not by bytes. Packs overlap the ends of rows; kernels mask what is not theirs.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::coordinates::decode_coordinate;
use super::launch::uninitialized;

/// Entries of a pack.
pub(super) const PACK: usize = 4;

/// Entries that a kernel may load at once from a tensor of slots: one where the tensor begins
/// within a pack, as a view may, or is shorter.
pub(super) fn pack_of(values: &CubeTensor) -> usize {
    let start = values.handle.offset_start.unwrap_or(0);
    let bytes = (PACK * values.dtype.size()) as u64;
    match start.is_multiple_of(bytes) && values.meta.num_elements() >= PACK {
        true => PACK,
        false => 1,
    }
}

/// An uninitialized tensor of slots, `[nnz]`, and the same memory with space for a whole last pack.
pub(super) fn padded_slots(like: &CubeTensor, nnz: usize) -> (CubeTensor, CubeTensor) {
    let padded = nnz.next_multiple_of(PACK);
    let whole = uninitialized(like, Shape::new([padded]));
    let mut handle = whole.handle.clone();
    let unused = (padded - nnz) * like.dtype.size();
    if unused > 0 {
        handle = handle.offset_end(unused as u64);
    }
    let (client, device) = (like.client.clone(), like.device.clone());
    let cut = CubeTensor::new_contiguous(client, device, [nnz].into(), handle, like.dtype);
    (whole, cut)
}

/// Words that hold the coordinates of a pack.
pub(super) fn words_of_pack(pack: usize, packed: bool) -> usize {
    if packed { pack.div_ceil(2) } else { pack }
}

/// The coordinates of a pack, which may lie past the end of the padded list's entries.
#[cube]
pub(super) fn pack_coordinates<V: Size, C: Size>(
    words: &Tensor<Vector<u32, C>>,
    pack: usize,
    #[comptime] packed: bool,
) -> Vector<u32, C> {
    let size = V::value();
    if comptime!(packed && size == 1) {
        words[pack / 2]
    } else {
        words[pack]
    }
}

/// Coordinate number `i` of a pack.
#[cube]
pub(super) fn pack_coordinate<V: Size, C: Size>(
    words: Vector<u32, C>,
    pack: usize,
    #[comptime] i: usize,
    #[comptime] packed: bool,
) -> usize {
    let size = V::value();
    if comptime!(size == 1) {
        decode_coordinate(words.extract(0usize), pack, 0usize, packed)
    } else if packed {
        let word = words.extract(comptime!(i / 2));
        if comptime!(i % 2 == 0) {
            usize::cast_from(word & 0xffff)
        } else {
            usize::cast_from(word >> 16)
        }
    } else {
        usize::cast_from(words.extract(i))
    }
}

/// The values of a pack; what lies past the last entry repeats it. `single_values` are the same
/// values, of which those of an incomplete last pack are read.
#[cube]
pub(super) fn pack_values<F: Float, V: Size>(
    values: &Tensor<Vector<F, V>>,
    single_values: &Tensor<F>,
    pack: usize,
) -> Vector<F, V> {
    let count = single_values.len();
    let complete = count / V::value();
    let mut loaded = Vector::<F, V>::empty();
    if pack < complete {
        loaded = values[pack];
    } else {
        #[unroll]
        for i in 0..V::value() {
            loaded.insert(i, single_values[min(pack * V::value() + i, count - 1)]);
        }
    }
    loaded
}

/// The places of a pack's entries in a staged operand: `column * stride + offset`, or `nowhere` for
/// the entries outside `begin .. end`. Few packs have such entries, so this costs the others one
/// comparison. The sum may wrap, as it does where `offset` is negative.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn pack_places<V: Size, C: Size>(
    words: Vector<u32, C>,
    places: &mut Array<usize>,
    pack: usize,
    begin: usize,
    end: usize,
    offset: usize,
    nowhere: usize,
    #[comptime] stride: usize,
    #[comptime] packed: bool,
) {
    let size = V::value();
    #[unroll]
    for i in 0..size {
        places[i] = pack_coordinate::<V, C>(words, pack, i, packed) * stride + offset;
    }
    if pack * size < begin || (pack + 1) * size > end {
        #[unroll]
        for i in 0..size {
            let entry = pack * size + i;
            if entry < begin || entry >= end {
                places[i] = nowhere;
            }
        }
    }
}

/// The values of a pack, zero for the entries outside `begin .. end`. `loaded` is what
/// [`pack_values`] gave.
#[cube]
pub(super) fn mask_values<F: Float, V: Size>(
    loaded: Vector<F, V>,
    pack: usize,
    begin: usize,
    end: usize,
) -> Vector<F, V> {
    let size = V::value();
    let mut kept = loaded;
    if pack * size < begin || (pack + 1) * size > end {
        #[unroll]
        for i in 0..size {
            let entry = pack * size + i;
            if entry < begin || entry >= end {
                kept.insert(i, F::new(0.0_f32));
            }
        }
    }
    kept
}
