//! The host of the cross-crate tests and benches. What follows is the README, so that its code is
//! compiled and run as a test.
#![doc = include_str!("../README.md")]
