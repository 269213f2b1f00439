//! CubeCL kernels for every runtime that Burn's `CubeBackend` covers: CUDA, ROCm, Metal, Vulkan,
//! WebGPU and the JIT-compiled CPU.

mod launch;
mod ops;
mod sddmm;
mod spmm;
