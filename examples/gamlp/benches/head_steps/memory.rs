//! How much memory of the device a measurement takes.

use burn::tensor::{Device, Tensor};
use gamlp::{DeviceChoice, GpuMeter};
use serde::Serialize;

/// Memory beyond what the device held when nothing was on it, in MB of 10^6 bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Memory {
    /// Of tensors.
    pub in_use_mb: f64,
    /// That the pool of the device holds: the peak since it was emptied, because it gives nothing back
    /// by itself.
    pub reserved_mb: f64,
    /// That the whole GPU says is used; code of kernels, graphs and what other processes take are in it.
    pub nvml_mb: Option<f64>,
}

/// The memory of a device, of which nothing is known on the host.
pub struct MemoryProbe {
    device: Device,
    meter: Option<GpuMeter>,
    empty: Option<[u64; 3]>,
}

impl MemoryProbe {
    /// Remembers what the device holds now.
    pub fn new(device: &Device, choice: DeviceChoice) -> Result<Self, String> {
        // The first tensor makes the driver take what it needs.
        let first: Tensor<1> = Tensor::zeros([1], device);
        drop(first + 1.0);
        let mut probe = Self {
            device: device.clone(),
            meter: meter(choice),
            empty: None,
        };
        probe.clear()?;
        probe.empty = probe.bytes();
        Ok(probe)
    }

    /// Gives back what no tensor uses, so that a peak begins here.
    pub fn clear(&self) -> Result<(), String> {
        self.device.sync().map_err(|error| error.to_string())?;
        self.device.memory_cleanup();
        self.device.sync().map_err(|error| error.to_string())
    }

    /// What is taken now.
    pub fn read(&self) -> Option<Memory> {
        let (now, empty) = (self.bytes()?, self.empty?);
        let mb = |index: usize| (now[index] as f64 - empty[index] as f64) / 1e6;
        Some(Memory {
            in_use_mb: mb(0),
            reserved_mb: mb(1),
            nvml_mb: self.meter.is_some().then(|| mb(2)),
        })
    }

    fn bytes(&self) -> Option<[u64; 3]> {
        let usage = self.device.memory_pool_usage()?;
        let used = self.meter.as_ref().and_then(GpuMeter::read);
        let used = used.map_or(0, |reading| reading.used_bytes);
        Some([usage.bytes_in_use, usage.bytes_reserved, used])
    }
}

/// The meter of the GPU that a run is on.
pub fn meter(choice: DeviceChoice) -> Option<GpuMeter> {
    GpuMeter::open(0).filter(|_| choice == DeviceChoice::Cuda)
}
