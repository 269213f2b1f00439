//! The back ends that a test runs on.

use std::env;

use burn::tensor::{DType, Device};

/// A compiled back end: its name and its default device.
pub struct Backend {
    pub name: &'static str,
    pub device: Device,
}

impl Backend {
    /// Whether the sparse products run as kernels of CubeCL.
    pub fn is_cube(&self) -> bool {
        self.name != "flex"
    }

    pub fn autodiff(&self) -> Device {
        self.device.clone().autodiff()
    }

    /// The device with autodiff, without and with gradient checkpointing.
    pub fn autodiff_variants(&self) -> [(&'static str, Device); 2] {
        let device = self.autodiff();
        let checkpointing = device.clone().gradient_checkpointing();
        [("plain", device), ("checkpointing", checkpointing)]
    }

    pub fn supports(&self, dtype: DType) -> bool {
        self.device.supports_dtype(dtype)
    }

    /// The bound on the distance to a dense product of Burn, which on some devices is tuned
    /// among kernels of reduced precision. The f64 reference has no such excuse.
    pub fn dense_tolerance(&self) -> f64 {
        match self.name {
            "flex" | "wgpu" => 1e-5,
            _ => 2e-2,
        }
    }
}

/// Every compiled back end, or those that `SNACK_TEST_DEVICE` names.
///
/// # Panics
///
/// If a named back end is not compiled in, so that a typing error never passes as success.
pub fn backends() -> Vec<Backend> {
    let compiled = compiled();
    let Ok(names) = env::var("SNACK_TEST_DEVICE") else {
        return compiled;
    };
    let wanted: Vec<&str> = names.split(',').map(str::trim).collect();
    for name in &wanted {
        assert!(
            compiled.iter().any(|backend| backend.name == *name),
            "SNACK_TEST_DEVICE names `{name}`, compiled in: {}",
            compiled
                .iter()
                .map(|backend| backend.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    compiled
        .into_iter()
        .filter(|backend| wanted.contains(&backend.name))
        .collect()
}

/// The host back end, for tests of what no device decides.
pub fn flex() -> Option<Backend> {
    backends()
        .into_iter()
        .find(|backend| backend.name == "flex")
}

fn compiled() -> Vec<Backend> {
    Vec::from([
        #[cfg(feature = "flex")]
        Backend {
            name: "flex",
            device: Device::flex(),
        },
        #[cfg(feature = "cpu")]
        Backend {
            name: "cpu",
            device: Device::cpu(),
        },
        #[cfg(feature = "wgpu")]
        Backend {
            name: "wgpu",
            device: Device::wgpu(Default::default()),
        },
        #[cfg(feature = "vulkan")]
        Backend {
            name: "vulkan",
            device: Device::vulkan(Default::default()),
        },
        #[cfg(feature = "metal")]
        Backend {
            name: "metal",
            device: Device::metal(Default::default()),
        },
        #[cfg(feature = "cuda")]
        Backend {
            name: "cuda",
            device: Device::cuda(0),
        },
        #[cfg(feature = "rocm")]
        Backend {
            name: "rocm",
            device: Device::rocm(0),
        },
    ])
}
