//! CubeCL kernels for every runtime that Burn's `CubeBackend` covers: CUDA, ROCm, Metal, Vulkan,
//! WebGPU and the JIT-compiled CPU.

mod batch_sum;
mod coordinates;
mod growth;
mod launch;
mod ops;
mod packs;
mod panel;
mod parts;
mod sddmm;
mod spmm;
mod staging;
mod tiles;
mod transpose;
mod tune;
