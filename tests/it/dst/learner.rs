//! Burn's `Learner` and a plain loop give the same run, gradient accumulation included.

use core::fmt::Display;

use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::lr_scheduler::constant::ConstantLr;
use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsAccumulator, GradientsParams};
use burn::tensor::{Device, Tensor};
use burn::train::logger::InMemoryMetricLogger;
use burn::train::{
    ExecutionStrategy, InferenceStep, Learner, MultiDeviceOptim, RegressionOutput,
    SupervisedTraining, TrainOutput, TrainStep,
};
use snack_burn::dst::{Rewiring, SharedDst};
use snack_burn::prelude::*;

use super::presets::Chain;
use crate::support::records::contents;
use crate::support::{flex, tensor2};

pub const BATCHES: usize = 10;
const RATE: f64 = 0.01;

#[derive(Clone, Debug)]
pub struct Inputs(Tensor<2>);

/// Turns the number of a batch into a batch.
struct Numbered;

fn inputs(number: usize, device: &Device) -> Tensor<2> {
    let numbers: Vec<f32> = (0..4 * 12)
        .map(|i| ((i + 389 * number) as f32 * 0.43).sin())
        .collect();
    tensor2(&numbers, [4, 12], device)
}

impl Batcher<usize, Inputs> for Numbered {
    fn batch(&self, items: Vec<usize>, device: &Device) -> Inputs {
        Inputs(inputs(items[0], device))
    }
}

impl Chain {
    pub fn regression(&self, Inputs(x): Inputs) -> RegressionOutput {
        let y = self.forward(x);
        let target = y.zeros_like();
        let loss = (y.clone() - 0.5).powi_scalar(2).mean();
        RegressionOutput::new(loss, y, target)
    }
}

impl TrainStep for Chain {
    type Input = Inputs;
    type Output = RegressionOutput;

    fn step(&self, item: Inputs) -> TrainOutput<RegressionOutput> {
        let output = self.regression(item);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for Chain {
    type Input = Inputs;
    type Output = RegressionOutput;

    fn step(&self, item: Inputs) -> RegressionOutput {
        self.regression(item)
    }
}

pub fn config() -> DstConfig {
    DstConfig::rigl(40).with_every(2)
}

/// Two epochs of the batches in the given order.
fn plain(mut net: Chain, order: &[usize], accumulation: usize) -> (Chain, DstState) {
    let device = net.layers[0].values.device();
    let mut optim = AdamWConfig::new().init();
    let mut dst = config().init(&net).unwrap();
    for _ in 0..2 {
        let mut accumulator = GradientsAccumulator::new();
        for (place, &number) in (1..).zip(order) {
            let output = net.regression(Inputs(inputs(number, &device)));
            let grads = GradientsParams::from_grads(output.loss.backward(), &net);
            accumulator.accumulate(&net, grads);
            if place % accumulation == 0 || place == BATCHES {
                net = optim.step(RATE, net, accumulator.grads());
                net = dst.step_mut(net, &mut optim);
            }
        }
    }
    (net, dst.state())
}

/// The model and the updater after two epochs in a learner.
fn learner(start: &Chain, execution: ExecutionStrategy, accumulation: usize) -> (Chain, DstState) {
    let device = start.layers[0].values.device();
    let dst = SharedDst::from(config().init(start).unwrap());
    let model = Rewiring::new(start.clone(), dst.clone());
    let model = launch(model, &device, execution, accumulation).model;
    (model, dst.state())
}

/// A model on `device` after two epochs in a learner.
pub fn launch<M>(model: M, device: &Device, execution: ExecutionStrategy, accumulation: usize) -> M
where
    M: Module + Display + Send + 'static + TrainStep<Input = Inputs, Output = RegressionOutput>,
    M: InferenceStep<Input = Inputs, Output = RegressionOutput>,
{
    let loader = |device: &Device| {
        DataLoaderBuilder::new(Numbered)
            .batch_size(1)
            .set_device(device.clone())
            .build(InMemDataset::new((0..BATCHES).collect()))
    };
    let learner = Learner::new(model, AdamWConfig::new().init(), ConstantLr::new(RATE));
    let folder = tempfile::tempdir().unwrap();
    let loaders = (loader(device), loader(&device.clone().inner()));
    let training = SupervisedTraining::new(folder.path(), loaders.0, loaders.1)
        .num_epochs(2)
        .with_training_strategy(execution.into())
        .with_metric_logger(InMemoryMetricLogger::new())
        .with_application_logger(None);
    let training = match accumulation {
        1 => training,
        more => training.grads_accumulation(more),
    };
    training.launch(learner).model
}

#[test]
fn a_learner_equals_a_plain_loop() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let start = Chain::new(&device);
    for accumulation in [1, 4] {
        let (expected, state) = plain(start.clone(), &Vec::from_iter(0..BATCHES), accumulation);
        assert_ne!(expected.patterns(), start.patterns());
        let single = ExecutionStrategy::SingleDevice(device.clone());
        let (found, found_state) = learner(&start, single, accumulation);
        assert_eq!(found.patterns(), expected.patterns(), "{accumulation}");
        let values = [found, expected].map(|net| contents(net.into_record()));
        assert!(values[0] == values[1], "accumulation of {accumulation}");
        assert_eq!(found_state, state);
        assert_eq!(state.skipped, 0);
    }
}

/// Workers train forks of the model; what they capture makes up the gradient of the update.
#[test]
fn several_workers_equal_accumulation() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let start = Chain::new(&device);
    // Each worker has a half of the data.
    let order: Vec<usize> = (0..5).flat_map(|number| [number, number + 5]).collect();
    let (expected, state) = plain(start.clone(), &order, 2);
    let devices = vec![device.clone(), device];
    let workers = ExecutionStrategy::multi(devices, MultiDeviceOptim::OptimMainDevice);
    let (found, found_state) = learner(&start, workers, 1);
    assert_eq!(found_state, state);
    assert_eq!(found.patterns(), expected.patterns());
}
