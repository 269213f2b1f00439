//! One binary for all tests: every test binary links all of Burn.

mod bad_data;
mod cache;
mod class_names;
mod cli;
mod cora;
mod data;
mod end_to_end;
mod folder;
mod golden;
mod infer;
mod loss;
mod model;
mod placement;
mod program;
mod propagation;
mod reference;
mod resume;
mod support;
mod synthetic;
mod training;
