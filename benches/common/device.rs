//! The back ends that the benches run on.

use burn::tensor::Device;
use clap::ValueEnum;

/// A back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DeviceName {
    Flex,
    Wgpu,
    Cuda,
    Cpu,
}

impl DeviceName {
    pub fn name(self) -> &'static str {
        match self {
            Self::Flex => "flex",
            Self::Wgpu => "wgpu",
            Self::Cuda => "cuda",
            Self::Cpu => "cpu",
        }
    }

    /// The default device of the back end.
    ///
    /// # Errors
    ///
    /// Names the feature that is missing.
    pub fn device(self) -> Result<Device, String> {
        match self {
            #[cfg(feature = "flex")]
            Self::Flex => Ok(Device::flex()),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Ok(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "cuda")]
            Self::Cuda => Ok(Device::cuda(0)),
            #[cfg(feature = "cpu")]
            Self::Cpu => Ok(Device::cpu()),
            #[allow(unreachable_patterns)]
            other => Err(format!(
                "--device {other:?} is not compiled in: add its feature"
            )),
        }
    }
}
