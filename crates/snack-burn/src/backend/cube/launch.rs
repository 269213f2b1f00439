//! What all launches share: types, limits and features of the device.

use burn::backend::cubecl::{dtype_to_elem_type, dtype_to_storage_type};
use burn::backend::ops::FloatTensorOps;
use burn::tensor::{DType, Shape};
use burn_cubecl::CubeBackend;
use burn_cubecl::ops::numeric::{empty_device_contiguous_dtype, zeros_client};
use burn_cubecl::tensor::CubeTensor;
use cubecl::client::Client;
use cubecl::features::{AtomicUsage, Plane};
use cubecl::ir::{ElemType, Type};
use cubecl::prelude::*;

use crate::ops::RoutineError;

/// The type of sums: half precision accumulates in `f32`.
pub(super) fn accumulation_dtype(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::F32 | DType::F64 => dtype,
        other => panic!("sparse products support f32, f64, f16 and bf16 values, got {other:?}"),
    }
}

/// Element type of the operands, then of the sums.
pub(super) fn dtypes(dtype: DType) -> [ElemType; 2] {
    [
        dtype_to_storage_type(dtype),
        dtype_to_storage_type(accumulation_dtype(dtype)),
    ]
}

/// An output whose elements the kernel writes all.
pub(super) fn uninitialized(like: &CubeTensor, shape: Shape) -> CubeTensor {
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, like.dtype)
}

/// Intermediate sums of the accumulation type, which a kernel writes all.
pub(super) fn scratch(like: &CubeTensor, shape: Shape) -> CubeTensor {
    let dtype = accumulation_dtype(like.dtype);
    empty_device_contiguous_dtype(like.client.clone(), like.device.clone(), shape, dtype)
}

/// An output of zeros.
pub(super) fn zeros(like: &CubeTensor, shape: Shape) -> CubeTensor {
    zeros_client(like.client.clone(), like.device.clone(), shape, like.dtype)
}

/// The widest address that any of the tensors needs.
pub(super) fn address_type<const N: usize>(tensors: [&CubeTensor; N]) -> AddressType {
    tensors
        .into_iter()
        .map(CubeTensor::required_address_type)
        .max()
        .unwrap_or_default()
}

/// Samples that one unit or plane serves in one pass over a row.
pub(super) fn batch_tile(batch: usize) -> usize {
    match batch {
        0..=1 => 1,
        2 => 2,
        3..=4 => 4,
        _ => 8,
    }
}

/// Refuses types that the device does not compute in.
pub(super) fn check_type(tensor: &CubeTensor) -> Result<(), RoutineError> {
    let properties = tensor.client.properties();
    match dtypes(tensor.dtype)
        .iter()
        .all(|&elem| properties.supports_type(elem))
    {
        true => Ok(()),
        false => Err(RoutineError::UnsupportedType {
            device: tensor.client.name().to_string(),
            dtype: tensor.dtype.name(),
        }),
    }
}

/// Whether the device adds the type atomically.
pub(super) fn adds_atomically(client: &Client, dtype: DType) -> bool {
    client
        .properties()
        .atomic_type_usage(Type::atomic(dtype_to_elem_type(dtype)))
        .contains(AtomicUsage::Add)
}

/// The number of units in a plane, if the device has plane operations and planes of one size, a power of two.
pub(super) fn plane_size(client: &Client) -> Option<u32> {
    let properties = client.properties();
    let (min, max) = (
        properties.hardware.plane_size_min,
        properties.hardware.plane_size_max,
    );
    let one_size = min == max && max > 1 && max.is_power_of_two();
    (properties.features.plane.contains(Plane::Ops) && one_size).then_some(max)
}

/// The units that add up their sums by plane operations: a plane, or one where there are none.
pub(super) fn plane_reduction(client: &Client) -> u32 {
    plane_size(client).unwrap_or(1)
}

/// Cubes of the largest kind that the device runs at once, or a guess where it does not say.
pub(super) fn multiprocessors(client: &Client) -> usize {
    const UNKNOWN: usize = 64;
    let count = client.properties().hardware.num_streaming_multiprocessors;
    count.map_or(UNKNOWN, |count| count as usize)
}

/// Whether the runtime executes cubes on CPU cores, without shared memory worth staging in.
pub(super) fn is_cpu(client: &Client) -> bool {
    client.properties().hardware.num_cpu_cores.is_some()
}

/// Whether the automatic choice may compute by the dense product, whose precision in single
/// precision can be lower than that of the sparse routines.
pub(super) fn panels_allowed(x: &CubeTensor, reduced_precision: bool) -> bool {
    reduced_precision || matches!(x.dtype, DType::F16 | DType::BF16)
}

/// Refuses a routine whose cubes have more units than the device runs together. The CPU runtime
/// runs as many as it has cores.
pub(super) fn check_units(
    client: &Client,
    routine: &'static str,
    units: u32,
) -> Result<(), RoutineError> {
    match units <= client.properties().hardware.max_units_per_cube {
        true => Ok(()),
        false => Err(RoutineError::MissingFeature {
            routine,
            needed: format!("cubes of {units} units"),
        }),
    }
}

/// A grid of `requested` cubes, if the device allows that many on each axis.
pub(super) fn grid(
    client: &Client,
    routine: &'static str,
    requested: [usize; 2],
) -> Result<CubeCount, RoutineError> {
    let (x, y, z) = client.properties().hardware.max_cube_count;
    let allowed = [x, y, z].map(u64::from);
    let requested = [requested[0] as u64, requested[1] as u64, 1];
    match requested
        .iter()
        .zip(&allowed)
        .all(|(requested, allowed)| requested <= allowed)
    {
        true => Ok(CubeCount::Static(
            requested[0] as u32,
            requested[1] as u32,
            1,
        )),
        false => Err(RoutineError::LaunchTooLarge {
            routine,
            requested,
            allowed,
        }),
    }
}

/// A grid of at most `wanted` cubes per axis, cut to what the device allows: for kernels that
/// stride over what the grid does not cover.
pub(super) fn strided_grid(client: &Client, wanted: [usize; 2]) -> CubeCount {
    let (x, y, _) = client.properties().hardware.max_cube_count;
    let cut = |wanted: usize, allowed: u32| wanted.clamp(1, allowed as usize) as u32;
    CubeCount::Static(cut(wanted[0], x), cut(wanted[1], y), 1)
}

/// Adds a bias of shape `[width]` to every row of `y`, for routines that do not fuse it.
pub(super) fn add_bias(y: CubeTensor, bias: &CubeTensor) -> CubeTensor {
    let width = bias.meta.num_elements();
    let bias = CubeBackend::float_reshape(bias.clone(), Shape::new([1, width]));
    CubeBackend::float_add(y, bias)
}
