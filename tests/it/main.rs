//! Cross-crate tests of `snack-burn`, one module per topic, over every compiled back end.
//!
//! `SNACK_TEST_DEVICE=name[,name]` restricts them to the named back ends.

mod support;

mod products;
