//! The updaters of all ranks, for training loops that clone one model for every device.

use std::fmt;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;

use super::{DstConfig, DstError, DstState, SharedDst};
use crate::dist::communicators;
use crate::nn::find_layers;

/// One updater for each device, behind a handle that a model carries along through Burn's
/// `ExecutionStrategy::ddp`, which clones the model for every device. Clones are the same updaters.
///
/// With the feature `train`, `RankedRewiring` carries it for any model. A `TrainStep` of one's own asks
/// for the updater of the model's device, before the backward pass and after the optimizer step:
///
/// ```text
/// dst.of(&model).listen_to(&model);
/// let output = TrainStep::step(&model, item);
/// ...
/// let model = model.optimize(optim, learning_rate, grads);
/// let model = dst.of(&model).step(model, optim);
/// ```
///
/// That strategy has reduced the gradients by then, so [`reduce_gradients`](crate::dist::reduce_gradients)
/// has no place here, and its context must be made with `ReduceOperation::Mean`.
///
/// All clones hold the communicators of all ranks, so that a worker that panics does not leave the group:
/// others that wait for it give up after [`Threads::PATIENCE`](crate::dist::Threads::PATIENCE), unless
/// the process ends before, as it does when Burn's strategy passes the panic on.
#[derive(Clone)]
pub struct RankedDst(Arc<[(Device, SharedDst)]>);

impl RankedDst {
    /// Updaters of replicas of a model on the given devices, one rank each.
    ///
    /// # Errors
    ///
    /// As [`DstConfig::init`].
    ///
    /// # Panics
    ///
    /// Panics if there is no device, or one is named twice: a model could not tell which rank it is.
    pub fn new<M: Module>(
        model: &M,
        config: &DstConfig,
        devices: &[Device],
    ) -> Result<Self, DstError> {
        Self::from_state(model, config, &DstState::default(), devices)
    }

    /// The updaters of an interrupted run, whose [state](SharedDst::state) is that of any of its ranks: on
    /// as many devices as before or others. The model is that of the same checkpoint.
    ///
    /// # Errors
    ///
    /// As [`DstConfig::init_from`].
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn from_state<M: Module>(
        model: &M,
        config: &DstConfig,
        state: &DstState,
        devices: &[Device],
    ) -> Result<Self, DstError> {
        let devices: Vec<_> = devices.iter().cloned().map(Device::inner).collect();
        assert!(!devices.is_empty(), "RankedDst: there must be a device");
        for (index, device) in devices.iter().enumerate() {
            assert!(
                !devices[..index].contains(device),
                "RankedDst: {device:?} is named twice"
            );
        }
        let updater = |ranks| {
            let mut dst = config.init_from(model, state.clone())?;
            dst.set_ranks(ranks);
            Ok(SharedDst::new(dst))
        };
        let updaters = communicators(&devices).into_iter().map(updater);
        let updaters: Vec<_> = updaters.collect::<Result<_, DstError>>()?;
        Ok(Self(devices.into_iter().zip(updaters).collect()))
    }

    /// The updater of the device that the model's sparse layers are on.
    ///
    /// # Panics
    ///
    /// Panics if the model has no sparse layer or is on none of the devices.
    pub fn of<M: Module>(&self, model: &M) -> &SharedDst {
        let layers = find_layers(model);
        let layer = layers
            .first()
            .expect("RankedDst::of: the model has a sparse layer");
        let device = layer.values.device().inner();
        let updater = self.0.iter().find(|(known, _)| *known == device);
        match updater {
            Some((_, updater)) => updater,
            None => panic!("RankedDst::of: the model is on {device:?}, which has no updater"),
        }
    }

    /// The updaters in the order of ranks; the state of any of them is that of all.
    pub fn updaters(&self) -> impl ExactSizeIterator<Item = &SharedDst> {
        self.0.iter().map(|(_, updater)| updater)
    }
}

impl fmt::Debug for RankedDst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::{SparseLinear, SparseLinearConfig};

    fn model(nnz: usize) -> SparseLinear {
        let config = SparseLinearConfig::new(8, 6).with_nnz(Some(nnz));
        config.init(&Device::default().autodiff())
    }

    #[test]
    fn a_model_finds_the_updater_of_its_device() {
        let model = model(24);
        let config = DstConfig::set().with_every(1);
        let dst = RankedDst::new(&model, &config, &[Device::default()]).unwrap();
        let mut optim = burn::optim::SgdConfig::new().init();
        let before = model.pattern().clone();
        let model = dst.clone().of(&model).step(model, &mut optim);
        assert_ne!(*model.pattern(), before);
        let steps: Vec<_> = dst.updaters().map(SharedDst::steps).collect();
        assert_eq!(steps, [1]);
    }

    #[test]
    fn a_saved_state_goes_on_as_if_uninterrupted() {
        let config = DstConfig::set().with_every(2);
        let devices = [Device::default()];
        let mut optim = burn::optim::SgdConfig::new().init();
        let mut model = model(24);
        let dst = RankedDst::new(&model, &config, &devices).unwrap();
        for _ in 0..3 {
            model = dst.of(&model).step(model, &mut optim);
        }
        let state = dst.of(&model).state();
        let saved = DstState::from_bytes(state.to_bytes().unwrap()).unwrap();

        let resumed = RankedDst::from_state(&model, &config, &saved, &devices).unwrap();
        let states: Vec<_> = resumed.updaters().map(SharedDst::state).collect();
        assert_eq!(states, [state]);
        let before = model.pattern().clone();
        let device = model.values.device();
        let fork = model.clone().fork(&device);
        let [found, expected] = [(resumed, fork), (dst, model)].map(|(dst, model)| {
            let model = dst.of(&model).step(model, &mut optim);
            (dst.of(&model).state(), model.pattern().clone())
        });
        assert_eq!(found, expected);
        assert_ne!(found.1, before);
    }

    #[test]
    fn the_state_of_another_model_is_refused() {
        let config = DstConfig::set();
        let state = config.init(&model(24)).unwrap().state();
        let refused = RankedDst::from_state(&model(23), &config, &state, &[Device::default()]);
        assert!(refused.is_err());
    }

    #[test]
    #[should_panic(expected = "is named twice")]
    fn devices_must_differ() {
        let device = Device::default();
        RankedDst::new(&model(24), &DstConfig::set(), &[device.clone(), device]).ok();
    }
}
