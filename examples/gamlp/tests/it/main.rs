//! One binary for all tests: every test binary links all of Burn.

mod bad_data;
mod cache;
mod cora;
mod data;
mod end_to_end;
mod folder;
mod golden;
mod model;
mod propagation;
mod reference;
mod support;
mod synthetic;
