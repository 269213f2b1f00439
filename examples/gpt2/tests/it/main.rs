//! One binary for all tests: every test binary links all of Burn.

mod bad_weight_files;
mod checkpoint;
mod cli;
mod convert;
mod convert_support;
mod decode;
mod device_failures;
mod devices;
mod dropout;
mod evaluate;
mod fixture;
#[cfg(unix)]
mod full_disk;
mod generate;
mod golden;
mod init;
mod log;
mod model;
mod output;
mod program;
mod prune;
mod resume;
mod round_trip;
#[cfg(unix)]
mod signals;
mod support;
mod text;
#[cfg(feature = "parquet")]
mod text_parquet;
mod text_runs;
mod training;
mod weight_files;
mod wikitext;
