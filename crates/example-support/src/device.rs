use burn::tensor::Device;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A device that was not compiled in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the device {device} is not part of this build (it has: {available}); build with `--features \
     {device}`, or choose another --device"
)]
pub struct DeviceNotCompiled {
    /// The device that was asked for.
    pub device: DeviceChoice,
    /// The devices of this build.
    pub available: String,
}

/// The back end that computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// Pure Rust on the CPU.
    Flex,
    /// CubeCL kernels compiled for the CPU.
    Cpu,
    /// WebGPU.
    Wgpu,
    /// Vulkan.
    Vulkan,
    /// NVIDIA CUDA.
    Cuda,
    /// Apple Metal.
    Metal,
    /// AMD ROCm.
    Rocm,
}

impl core::fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Flex => "flex",
            Self::Cpu => "cpu",
            Self::Wgpu => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Cuda => "cuda",
            Self::Metal => "metal",
            Self::Rocm => "rocm",
        })
    }
}

impl DeviceChoice {
    /// The back ends of this build; a GPU comes before a CPU, as in Burn's own default.
    pub fn available() -> Vec<Self> {
        let compiled = [
            (Self::Cuda, cfg!(feature = "cuda")),
            (Self::Metal, cfg!(feature = "metal")),
            (Self::Rocm, cfg!(feature = "rocm")),
            (Self::Vulkan, cfg!(feature = "vulkan")),
            (Self::Wgpu, cfg!(feature = "wgpu")),
            (Self::Cpu, cfg!(feature = "cpu")),
            (Self::Flex, cfg!(feature = "flex")),
        ];
        compiled
            .into_iter()
            .filter_map(|(kind, present)| present.then_some(kind))
            .collect()
    }

    /// The back end of a run that names none: the first of this build.
    pub fn first() -> Self {
        let first = Self::available().first().copied();
        first.unwrap_or(Self::Flex)
    }

    /// Whether devices of this kind are told apart by their index.
    pub fn has_indices(self) -> bool {
        matches!(self, Self::Cuda | Self::Rocm)
    }

    /// Opens one of several devices, the only one where there are [no indices](Self::has_indices).
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_index(self, index: usize) -> Result<Device, DeviceNotCompiled> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Cuda => Ok(Device::cuda(index)),
            #[cfg(feature = "rocm")]
            Self::Rocm => Ok(Device::rocm(index)),
            device => {
                let _ = index;
                device.open()
            }
        }
    }

    /// Opens the device.
    ///
    /// # Errors
    ///
    /// [`DeviceNotCompiled`] if the feature of the same name is off.
    pub fn open(self) -> Result<Device, DeviceNotCompiled> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => Ok(Device::flex()),
            #[cfg(feature = "cpu")]
            Self::Cpu => Ok(Device::cpu()),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Ok(Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "cuda")]
            Self::Cuda => Ok(Device::cuda(burn::tensor::DeviceIndex::Default)),
            #[cfg(feature = "metal")]
            Self::Metal => Ok(Device::metal(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "rocm")]
            Self::Rocm => Ok(Device::rocm(burn::tensor::DeviceIndex::Default)),
            #[allow(unreachable_patterns)]
            device => {
                let names: Vec<_> = Self::available().iter().map(Self::to_string).collect();
                Err(DeviceNotCompiled {
                    device,
                    available: names.join(", "),
                })
            }
        }
    }
}
