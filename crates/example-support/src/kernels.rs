//! What the kernels of the examples have in common: sizes of launches, and teams of units, one team per row.

#![allow(missing_docs, reason = "`cube` makes a module of every function")]

use burn::backend::cubecl::{dtype_to_elem_type, dtype_to_storage_type};
use burn::tensor::{DType, Shape};
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::features::Plane;
use cubecl::ir::ElemType;
use cubecl::prelude::*;

/// Most units per cube.
const UNITS: usize = 256;

/// Cubes and teams for a number of rows.
pub struct Teams {
    /// Cubes of the launch.
    pub count: CubeCount,
    /// Units of a cube.
    pub dim: CubeDim,
    /// Units that share a row: a plane, or one where planes have no operations.
    pub lanes: usize,
}

impl Teams {
    /// Teams for this many rows; each goes on to the next row where there are more rows than teams.
    pub fn for_rows(client: &Client, rows: usize) -> Self {
        let hardware = &client.properties().hardware;
        let (min, max) = (hardware.plane_size_min, hardware.plane_size_max);
        let planes = client.properties().features.plane.contains(Plane::Ops);
        let lanes = match planes && min == max && max > 1 {
            true => max as usize,
            false => 1,
        };
        let units = UNITS.min(hardware.max_units_per_cube as usize);
        let teams = (units / lanes).max(1);
        Self {
            count: cubes(client, rows.div_ceil(teams)),
            dim: CubeDim::new_1d((teams * lanes) as u32),
            lanes,
        }
    }
}

/// At most `wanted` cubes, cut to what the device allows: kernels stride over the rest.
pub fn cubes(client: &Client, wanted: usize) -> CubeCount {
    grid(client, [wanted, 1])
}

/// As [`cubes`], along two axes.
pub fn grid(client: &Client, wanted: [usize; 2]) -> CubeCount {
    let (x, y, _) = client.properties().hardware.max_cube_count;
    let cut = |wanted: usize, most: u32| wanted.clamp(1, most as usize) as u32;
    CubeCount::Static(cut(wanted[0], x), cut(wanted[1], y), 1)
}

/// Units of a cube whose units work alone.
pub fn single_units(client: &Client) -> CubeDim {
    let most = client.properties().hardware.max_units_per_cube;
    CubeDim::new_1d(most.min(UNITS as u32))
}

/// An output whose elements the kernel writes all.
pub fn output(like: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, dtype)
}

/// The kernel's type for elements of `dtype`.
pub fn element(dtype: DType) -> ElemType {
    dtype_to_storage_type(dtype)
}

/// The kernel's type for indices of `dtype`.
pub fn index_element(dtype: DType) -> ElemType {
    dtype_to_elem_type(dtype)
}

/// The widest address that any of the tensors needs.
pub fn addresses<const N: usize>(tensors: [&CubeTensor; N]) -> AddressType {
    tensors
        .into_iter()
        .map(CubeTensor::required_address_type)
        .max()
        .unwrap_or_default()
}

/// The widest vectors that the device loads at once and that fit where the tensors begin and end.
pub fn vector_size(tensors: &[&CubeTensor]) -> usize {
    let fits = |size: usize| {
        tensors.iter().all(|tensor| {
            let start = tensor.handle.offset_start.unwrap_or(0);
            let bytes = (size * tensor.dtype.size()) as u64;
            start.is_multiple_of(bytes) && tensor.meta.num_elements().is_multiple_of(size)
        })
    };
    let first = tensors[0];
    first
        .client
        .io_optimized_vector_sizes(first.dtype.size())
        .filter(|&size| fits(size))
        .max()
        .unwrap_or(1)
}

/// Rows along the last axis.
pub fn rows(tensor: &CubeTensor) -> usize {
    let shape = tensor.meta.shape();
    shape.num_elements() / shape[shape.num_dims() - 1].max(1)
}

/// The sum over a team.
#[cube]
pub fn team_sum(value: f32, #[comptime] lanes: usize) -> f32 {
    let mut sum = value;
    if comptime!(lanes > 1) {
        sum = plane_sum(value);
    }
    sum
}

/// The largest over a team.
#[cube]
pub fn team_max(value: f32, #[comptime] lanes: usize) -> f32 {
    let mut highest = value;
    if comptime!(lanes > 1) {
        highest = plane_max(value);
    }
    highest
}
