use crate::{DeviceChoice, DeviceNotCompiled};
use burn::tensor::Device;
use clap::ValueEnum;
use core::{fmt, str::FromStr};
use thiserror::Error;

/// The devices of a run that several of them share, written as in `cuda:0,cuda:1`: all of one back
/// end, each with its index, 0 if none is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceList {
    /// The back end.
    pub device: DeviceChoice,
    /// The index of every device, at least one.
    pub indices: Vec<usize>,
}

/// A text that is no list of devices.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeviceListError {
    /// A back end that does not exist.
    #[error("`{found}` is no back end, expected one of {allowed}")]
    UnknownDevice {
        /// What was given.
        found: String,
        /// The back ends.
        allowed: String,
    },
    /// An index that is no number.
    #[error("`{found}` is no index of a device, expected a number as in `{device}:0`")]
    InvalidIndex {
        /// What was given.
        found: String,
        /// The back end.
        device: DeviceChoice,
    },
    /// An index where there is one device only.
    #[error(
        "{device}:{index} does not exist: there is one {device}, which may be named several times, as in `{device},{device}`"
    )]
    SingleDevice {
        /// The back end.
        device: DeviceChoice,
        /// The index that was given.
        index: usize,
    },
    /// Devices of several back ends.
    #[error("{first} and {second} are different back ends, expected devices of one")]
    Mixed {
        /// The first one.
        first: DeviceChoice,
        /// The first other one.
        second: DeviceChoice,
    },
}

impl DeviceList {
    /// Opens the devices.
    ///
    /// # Errors
    ///
    /// [`DeviceNotCompiled`] if the feature of the back end is off.
    pub fn open(&self) -> Result<Vec<Device>, DeviceNotCompiled> {
        let indices = self.indices.iter();
        indices
            .map(|&index| self.device.open_index(index))
            .collect()
    }
}

impl FromStr for DeviceList {
    type Err = DeviceListError;

    fn from_str(text: &str) -> Result<Self, DeviceListError> {
        let mut list: Option<Self> = None;
        for part in text.split(',') {
            let part = part.trim();
            let (name, index) = match part.split_once(':') {
                Some((name, index)) => (name, Some(index)),
                None => (part, None),
            };
            let device = DeviceChoice::from_str(name, true).map_err(|_| {
                let all = DeviceChoice::value_variants().iter();
                let all: Vec<_> = all.map(DeviceChoice::to_string).collect();
                DeviceListError::UnknownDevice {
                    found: name.to_string(),
                    allowed: all.join(", "),
                }
            })?;
            let index: usize = index.map_or(Ok(0), |index| {
                index.parse().map_err(|_| DeviceListError::InvalidIndex {
                    found: index.to_string(),
                    device,
                })
            })?;
            if index > 0 && !device.has_indices() {
                return Err(DeviceListError::SingleDevice { device, index });
            }
            let list = list.get_or_insert(Self {
                device,
                indices: Vec::new(),
            });
            if list.device != device {
                return Err(DeviceListError::Mixed {
                    first: list.device,
                    second: device,
                });
            }
            list.indices.push(index);
        }
        Ok(list.expect("a split text has a part"))
    }
}

impl fmt::Display for DeviceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, index) in self.indices.iter().enumerate() {
            let separator = if place == 0 { "" } else { "," };
            match self.device.has_indices() {
                true => write!(f, "{separator}{}:{index}", self.device)?,
                false => write!(f, "{separator}{}", self.device)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        let list: DeviceList = "cuda:0,CUDA:1,cuda".parse().unwrap();
        assert_eq!(list.device, DeviceChoice::Cuda);
        assert_eq!(list.indices, [0, 1, 0]);
        assert_eq!(list.to_string(), "cuda:0,cuda:1,cuda:0");
        let list: DeviceList = "flex, flex ".parse().unwrap();
        assert_eq!(
            (list.to_string(), list.indices.len()),
            ("flex,flex".into(), 2)
        );
    }

    #[test]
    fn what_is_no_list_is_named() {
        let message = |text: &str| text.parse::<DeviceList>().unwrap_err().to_string();
        assert!(message("cuda:0,").starts_with("`` is no back end, expected one of flex, cpu"));
        assert!(message("gpu:0").contains("`gpu` is no back end"));
        assert_eq!(
            message("cuda:x"),
            "`x` is no index of a device, expected a number as in `cuda:0`"
        );
        assert!(message("flex:1").contains("flex:1 does not exist"));
        assert!(message("cuda:0,rocm:1").contains("cuda and rocm are different back ends"));
    }

    #[cfg(feature = "flex")]
    #[test]
    fn devices_open() {
        let list: DeviceList = "flex,flex".parse().unwrap();
        assert_eq!(list.open().unwrap(), [Device::flex(), Device::flex()]);
    }
}
