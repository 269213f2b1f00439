//! One binary for all tests: every test binary links all of Burn.

mod checkpoint;
mod cli;
mod golden;
mod log;
mod model;
mod resume;
mod support;
mod text;
#[cfg(feature = "parquet")]
mod text_parquet;
mod text_runs;
mod wikitext;
