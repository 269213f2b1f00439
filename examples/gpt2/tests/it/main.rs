//! One binary for all tests: every test binary links all of Burn.

mod checkpoint;
mod cli;
mod golden;
mod log;
mod model;
mod resume;
mod support;
