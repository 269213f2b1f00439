//! One query of every head against the filled part of a cache: scores, softmax and mix in one launch.

use burn::tensor::DType;
use burn_cubecl::tensor::CubeTensor;
use cubecl::ir::ElemType;
use cubecl::prelude::*;
use example_support::kernels::{addresses, grid, index_element, output, vector_size};

/// Units of a cube at most.
const UNITS: usize = 512;
/// Values that a unit has in flight.
const AHEAD: usize = 4;

/// Combines one number of every unit; all units get the result.
#[cube]
fn combine(
    parts: &mut Shared<[f32]>,
    value: f32,
    #[comptime] units: usize,
    #[comptime] largest: bool,
) -> f32 {
    let unit = UNIT_POS as usize;
    parts[unit] = value;
    sync_cube();
    #[unroll]
    for step in 0..comptime!(units.ilog2() as usize) {
        let distance = comptime!(units >> (step + 1));
        if unit < distance {
            let other = parts[unit + distance];
            if largest {
                parts[unit] = max(parts[unit], other);
            } else {
                parts[unit] += other;
            }
        }
        sync_cube();
    }
    let found = parts[0];
    sync_cube();
    found
}

#[cube(launch_unchecked, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn attend_kernel<I: Int, N: Size>(
    query: &Tensor<Vector<f32, N>>,
    keys: &Tensor<Vector<f32, N>>,
    cache: &Tensor<f32>,
    place: &Tensor<I>,
    mixed: &mut Tensor<f32>,
    queries: usize,
    heads: usize,
    scale: f32,
    #[comptime] places: usize,
    #[comptime] width: usize,
    #[comptime] vector: usize,
    #[comptime] units: usize,
    #[define(I)] _dtype: ElemType,
) {
    let mut weights = Shared::<[f32]>::new_slice(places);
    let mut parts = Shared::<[f32]>::new_slice(units);
    let unit = UNIT_POS as usize;
    let vectors = comptime!(width / vector);
    let seen = min(usize::cast_from(place[0]), places - 1) + 1;
    let mut index = CUBE_POS_X as usize;
    while index < queries {
        let (sample, head) = (index / heads, index % heads);
        let first_key = (sample * 2 * heads + head) * places * vectors;
        let values = (sample * 2 * heads + heads + head) * places * width;

        let mut highest = f32::new(comptime!(f32::MIN));
        let mut key = unit;
        while key < seen {
            let mut products = Vector::<f32, N>::new(0.0_f32);
            #[unroll(vectors <= 32)]
            for at in 0..vectors {
                products += query[index * vectors + at] * keys[first_key + key * vectors + at];
            }
            let mut score = 0.0_f32;
            #[unroll]
            for n in 0..N::value() {
                score += products.extract(n);
            }
            score *= scale;
            weights[key] = score;
            highest = max(highest, score);
            key += units;
        }
        let top = combine(&mut parts, highest, units, true);
        let mut sum = 0.0_f32;
        let mut key = unit;
        while key < seen {
            let weight = (weights[key] - top).exp();
            weights[key] = weight;
            sum += weight;
            key += units;
        }
        let total = combine(&mut parts, sum, units, false);

        // Groups of units share the places, the units of a group the width of a head.
        let groups = comptime!((units / width).max(1));
        let across = comptime!(units / (units / width).max(1));
        let (lane, group) = (unit % across, unit / across);
        let mut first = 0usize;
        while first < width {
            let at = first + lane;
            let mut value = 0.0_f32;
            if at < width {
                let mut key = group;
                while key < seen {
                    #[unroll]
                    for a in 0..AHEAD {
                        let place = key + comptime!(a * groups);
                        if place < seen {
                            value += weights[place] * cache[values + place * width + at];
                        }
                    }
                    key += comptime!(AHEAD * groups);
                }
            }
            parts[unit] = value;
            sync_cube();
            if group == 0 && at < width {
                let mut result = 0.0_f32;
                #[unroll]
                for g in 0..groups {
                    result += parts[g * across + lane];
                }
                mixed[index * width + at] = result / total;
            }
            sync_cube();
            first += across;
        }
        index += CUBE_COUNT_X as usize;
    }
}

/// The attention of contiguous queries, `[batch, heads, 1, width]`.
pub(super) fn attend(
    query: CubeTensor,
    cache: CubeTensor,
    place: CubeTensor,
    scale: f32,
) -> CubeTensor {
    let shape = query.meta.shape().clone();
    let (batch, heads, width) = (shape[0], shape[1], shape[3]);
    let mixed = output(&query, shape, DType::F32);
    if batch * heads * width == 0 {
        return mixed;
    }
    let most = query.client.properties().hardware.max_units_per_cube as usize;
    let units = 1 << most.min(UNITS).ilog2();
    let vector = vector_size(&[&query, &cache]);
    let vector = match width.is_multiple_of(vector) {
        true => vector,
        false => 1,
    };
    // SAFETY: queries, places and the width are bounded in the kernel, the place is cut to the cache.
    unsafe {
        attend_kernel::launch_unchecked(
            &query.client,
            grid(&query.client, [batch * heads, 1]),
            CubeDim::new_1d(units as u32),
            addresses([&query, &cache]),
            vector,
            query.clone().into_tensor_arg(),
            cache.clone().into_tensor_arg(),
            cache.clone().into_tensor_arg(),
            place.clone().into_tensor_arg(),
            mixed.clone().into_tensor_arg(),
            batch * heads,
            heads,
            scale,
            cache.meta.shape()[2],
            width,
            vector,
            units,
            index_element(place.dtype),
        );
    }
    mixed
}
