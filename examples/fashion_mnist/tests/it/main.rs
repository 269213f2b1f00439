//! One binary for all tests: every test binary links all of Burn.

mod cli;
mod data;
mod learner;
mod runs;
mod support;
