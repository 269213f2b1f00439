/// What NVML says of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuReading {
    /// Energy used since the driver was loaded, in millijoules.
    pub energy_mj: u64,
    /// Memory that all processes have on the GPU, in bytes.
    pub used_bytes: u64,
}

/// Reads energy and memory of an NVIDIA GPU through NVML, where there is one.
///
/// The counter of energy is that of the whole GPU: it also counts what other processes use.
#[derive(Debug)]
pub struct GpuMeter {
    #[cfg(feature = "cuda")]
    nvml: nvml_wrapper::Nvml,
    #[cfg(feature = "cuda")]
    index: u32,
}

impl GpuMeter {
    /// The meter of the GPU with this index; `None` without the feature `cuda`, without NVML, or if
    /// the GPU does not count energy (before Volta).
    pub fn open(index: u32) -> Option<Self> {
        #[cfg(feature = "cuda")]
        {
            let nvml = nvml_wrapper::Nvml::init().ok()?;
            let meter = Self { nvml, index };
            meter.read().map(|_| meter)
        }
        #[cfg(not(feature = "cuda"))]
        {
            let _ = index;
            None
        }
    }

    /// What the GPU has used by now.
    pub fn read(&self) -> Option<GpuReading> {
        #[cfg(feature = "cuda")]
        {
            let device = self.nvml.device_by_index(self.index).ok()?;
            Some(GpuReading {
                energy_mj: device.total_energy_consumption().ok()?,
                used_bytes: device.memory_info().ok()?.used,
            })
        }
        #[cfg(not(feature = "cuda"))]
        None
    }
}
