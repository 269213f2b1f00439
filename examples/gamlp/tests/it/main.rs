//! One binary for all tests: every test binary links all of Burn.

mod golden;
mod model;
mod reference;
mod support;
