//! Reading neighbouring entries at once.
//!
//! A pack is a group of [`PACK`] entries that begins at a multiple of it, so that one load brings
//! the values of all and another their coordinates: the routines for small batches are bound by
//! instructions, not by bytes. Products walk the packs that lie in a row as a whole without masks,
//! and take the few entries beside them one by one.

use burn::tensor::Shape;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::coordinates::{coordinate, decode_coordinate};
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
        if comptime!(i.is_multiple_of(2)) {
            usize::cast_from(word & 0xffff)
        } else {
            usize::cast_from(word >> 16)
        }
    } else {
        usize::cast_from(words.extract(i))
    }
}

/// The packs that lie in `begin .. end` as a whole, `first .. last`; `complete` are those of the
/// matrix. At most `V - 1` entries before them and as many behind them are left.
#[cube]
pub(super) fn whole_packs<V: Size>(begin: usize, end: usize, complete: usize) -> (usize, usize) {
    let first = begin.div_ceil(V::value());
    (first, max(min(end / V::value(), complete), first))
}

/// Turns in which `lanes` units load all that [`whole_packs`] leaves, one entry each.
pub(super) const fn edge_turns(pack: usize, lanes: usize) -> usize {
    match pack {
        1 => 0,
        _ => (2 * pack).div_ceil(lanes),
    }
}

/// Entry number `index` of those that [`whole_packs`] leaves of `begin .. end`: its value and its
/// column, or zero and `nowhere` if there are fewer.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn edge_entry<F: Float, V: Size>(
    values: &Tensor<F>,
    inputs: &Tensor<u32>,
    index: usize,
    begin: usize,
    end: usize,
    first: usize,
    last: usize,
    nowhere: usize,
    #[comptime] packed: bool,
) -> (F, usize) {
    let size = V::value();
    let mut entry = begin + index;
    let mut bound = min(first * size, end);
    if index >= size {
        entry = last * size + index - size;
        bound = end;
    }
    let mut value = F::new(0.0_f32);
    let mut column = nowhere;
    if index < 2 * size && entry < bound {
        value = values[entry];
        column = coordinate(inputs, entry, packed);
    }
    (value, column)
}

/// The places of a pack's entries in a staged operand, `column * stride + offset`, which may wrap
/// as it does where `offset` is negative.
#[cube]
pub(super) fn pack_places<V: Size, C: Size>(
    words: Vector<u32, C>,
    places: &mut Array<usize>,
    pack: usize,
    offset: usize,
    #[comptime] stride: usize,
    #[comptime] packed: bool,
) {
    #[unroll]
    for i in 0..V::value() {
        places[i] = pack_coordinate::<V, C>(words, pack, i, packed) * stride + offset;
    }
}
