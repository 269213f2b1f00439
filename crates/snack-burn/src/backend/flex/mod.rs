//! Host kernels for Burn's Flex back end: SIMD along the batch, threads over rows or batch tiles.

mod ops;
mod sddmm;
mod spmm;
mod transpose;
