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
    /// The meter of the GPU with this index among those that CUDA sees; `None` without the feature `cuda`,
    /// without NVML, or if the GPU does not count energy (before Volta).
    pub fn open(index: u32) -> Option<Self> {
        #[cfg(feature = "cuda")]
        {
            let nvml = nvml_wrapper::Nvml::init().ok()?;
            let visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
            let index = physical(index, visible.as_deref())?;
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

/// The index that NVML gives a GPU, which does not know what is hidden from CUDA: `visible` is
/// `CUDA_VISIBLE_DEVICES`. `None` for a GPU that is hidden or given by another name than its number.
#[cfg(any(feature = "cuda", test))]
fn physical(index: u32, visible: Option<&str>) -> Option<u32> {
    match visible {
        None => Some(index),
        Some(list) => list.split(',').nth(index as usize)?.trim().parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_gpus_are_counted() {
        assert_eq!(physical(1, None), Some(1));
        assert_eq!(physical(0, Some("3, 1")), Some(3));
        assert_eq!(physical(1, Some("3, 1")), Some(1));
        assert_eq!(physical(2, Some("3, 1")), None);
        assert_eq!(physical(0, Some("")), None);
        assert_eq!(physical(0, Some("GPU-1234")), None);
    }
}
