//! What the commands of the examples have in common: the choice of a device, the folder and the log of a
//! run, stopping on Ctrl-C, energy and memory of a GPU, devices that fail and models that cannot fit, and words
//! and numbers in messages.

mod description;
mod device;
mod device_list;
mod failure;
mod files;
mod gpu_meter;
mod interrupt;
#[cfg(feature = "__cube")]
pub mod kernels;
mod lock;
mod log;
mod machine_memory;
mod output;
mod run_dir;
mod update_line;

pub use description::read_description;
pub use device::{DeviceChoice, DeviceNotCompiled};
pub use device_list::{DeviceList, DeviceListError};
pub use failure::{DeviceFailure, catch_failure};
pub use files::{FileError, replace_file};
pub use gpu_meter::{GpuMeter, GpuReading};
pub use interrupt::{EXIT_INTERRUPTED, Interrupt};
pub use lock::{FolderBusy, FolderLock};
pub use log::{LogEntry, LogError, LogWriter, read_log};
pub use machine_memory::{TooLarge, machine_memory};
pub use output::{OutputError, counted, grouped, print_err, print_out, quoted, write_out};
pub use run_dir::{RunDir, RunDirError, RunFiles};
pub use update_line::UpdateLine;
