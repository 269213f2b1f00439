pub use example_support::DeviceChoice;

/// The CPU device where there is one, so that numbers can be compared to the last digits.
#[cfg(test)]
pub(crate) fn for_tests() -> burn::tensor::Device {
    #[cfg(feature = "flex")]
    return burn::tensor::Device::flex();
    #[cfg(not(feature = "flex"))]
    burn::tensor::Device::default()
}
