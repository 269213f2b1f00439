//! Cross-crate tests of `snack-burn`, one module per topic, over every compiled back end.
//!
//! `SNACK_TEST_DEVICE=name[,name]` restricts them to the named back ends.

mod support;

mod damaged_records;
mod dense_product;
mod determinism;
mod dist;
mod dst;
mod empty;
mod finite_differences;
mod growth;
mod half_precision;
mod layer_gradients;
mod layouts;
mod loss_curve;
#[cfg(target_os = "linux")]
mod memory;
mod modules;
mod products;
mod real_matrices;
mod records;
mod replicas;
mod resume;
mod sparse_tensor;
mod strided;
mod tiny_shapes;
mod topology;
mod tracked_parents;
