//! Host kernels for Burn's Flex back end: SIMD along the batch, threads over rows and batch tiles.
//!
//! Every sum has an order that depends on the problem alone, never on the number of threads.

mod gradients;
mod lanes;
mod ops;
mod real;
mod scatter;
mod scratch;
mod sddmm;
mod split;
mod spmm;

#[cfg(test)]
mod tests;
