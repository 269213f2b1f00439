//! Kernels of each back end.

use burn::tensor::Device;

#[cfg(feature = "__cube")]
pub(crate) mod cube;
#[cfg(feature = "flex")]
pub(crate) mod flex;

/// Whether a device runs the kernels of this crate's [`cube`] module.
pub(crate) fn has_device_kernels(device: &Device) -> bool {
    #[cfg(feature = "__cube")]
    return matches!(device.as_dispatch(), burn::backend::DispatchDevice::Cube(_));
    #[cfg(not(feature = "__cube"))]
    {
        let _ = device;
        false
    }
}

/// Whether a device runs kernels of this crate, and not Burn operations in their place.
pub(crate) fn has_kernels(device: &Device) -> bool {
    #[cfg(feature = "flex")]
    if matches!(device.as_dispatch(), burn::backend::DispatchDevice::Flex(_)) {
        return true;
    }
    has_device_kernels(device)
}
