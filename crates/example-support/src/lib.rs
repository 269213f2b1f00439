//! What the commands of the examples have in common: the choice of a device, stopping on Ctrl-C,
//! energy and memory of a GPU, and words and numbers in messages.

mod device;
mod device_list;
mod gpu_meter;
mod interrupt;
mod lock;
mod output;

pub use device::{DeviceChoice, DeviceNotCompiled};
pub use device_list::{DeviceList, DeviceListError};
pub use gpu_meter::{GpuMeter, GpuReading};
pub use interrupt::{EXIT_INTERRUPTED, Interrupt};
pub use lock::{FolderBusy, FolderLock};
pub use output::{OutputError, counted, grouped, print_err, print_out, quoted, write_out};
