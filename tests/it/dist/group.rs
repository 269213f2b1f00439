//! A group of ranks that train a small network.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use burn::module::Module;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::activation::tanh;
use burn::tensor::{Device, Tensor};
use snack_burn::dist::{Alone, Communicator, communicators_with_patience, reduce_gradients};
use snack_burn::nn::sparse_layers;
use snack_burn::prelude::*;

use crate::support::{flex, floats, tensor2};

/// Windows of one step; several ranks have equal parts of them.
pub const BATCH: usize = 8;
const SIZES: [usize; 3] = [20, 24, 6];

#[derive(Module, Debug)]
pub struct Net {
    pub first: SparseLinear,
    pub last: SparseLinear,
}

impl Net {
    pub fn new(seed: u64, device: &Device) -> Self {
        let layer = |index: usize, nnz| {
            SparseLinearConfig::new(SIZES[index], SIZES[index + 1])
                .with_nnz(Some(nnz))
                .with_seed(Some(seed + index as u64))
                .init(device)
        };
        Self {
            first: layer(0, 120),
            last: layer(1, 40),
        }
    }

    pub fn loss(&self, step: usize, rows: Range<usize>) -> Tensor<1> {
        let device = self.first.values.device();
        let [width, outputs] = [SIZES[0], SIZES[2]];
        // Four batches again and again, so that there is something to learn.
        let first = 977 * (step % 4);
        let x: Vec<f32> = (rows.start * width..rows.end * width)
            .map(|i| ((i + first) as f32 * 0.77).sin())
            .collect();
        let target: Vec<f32> = x
            .chunks(width)
            .flat_map(|x| (0..outputs).map(|i| x[i] - 0.5 * x[i + 8] * x[i + 1]))
            .collect();
        let x = tensor2(&x, [rows.len(), width], &device);
        let target = tensor2(&target, [rows.len(), outputs], &device);
        let y = self.last.forward(tanh(self.first.forward(x)));
        (y - target).powi_scalar(2).mean()
    }

    /// A replica: a clone would have the nodes of the original in the graph of derivatives.
    pub fn replica(&self) -> Self {
        self.replica_on(&self.first.values.device())
    }

    /// A replica on a device with autodiff.
    pub fn replica_on(&self, device: &Device) -> Self {
        self.clone().fork(device)
    }

    pub fn patterns(&self) -> Vec<Pattern> {
        let layers = sparse_layers(self).into_iter();
        layers.map(|layer| layer.pattern).collect()
    }
}

/// One rank of a run.
pub struct Rank {
    pub net: Net,
    pub dst: Dst,
    pub ranks: Arc<dyn Communicator>,
    /// The rows of every batch that it trains with; each part weighs the same.
    pub parts: Vec<Range<usize>>,
    optim: burn::optim::ModuleOptimizer,
    step: usize,
}

impl Rank {
    pub fn new(net: Net, config: &DstConfig, ranks: Arc<dyn Communicator>) -> Self {
        let dst = config.init(&net).unwrap();
        Self::with_updater(net, dst, ranks)
    }

    /// With an updater that was made for this replica.
    pub fn with_updater(net: Net, mut dst: Dst, ranks: Arc<dyn Communicator>) -> Self {
        dst.set_ranks(ranks.clone());
        let momentum = Some(MomentumConfig::new().with_momentum(0.9));
        let part = BATCH / ranks.ranks();
        let rows = part * ranks.rank()..part * (ranks.rank() + 1);
        Self {
            net,
            dst,
            parts: vec![rows],
            ranks,
            optim: SgdConfig::new().with_momentum(momentum).init(),
            step: 0,
        }
    }

    /// Goes on with the batches of all ranks, from the saved state of this one.
    pub fn alone(self, config: &DstConfig) -> Self {
        let state = self.dst.state().to_bytes().unwrap();
        let state = DstState::from_bytes(state).unwrap();
        let dst = config.init_from(&self.net, state).unwrap();
        let alone = Self::with_updater(self.net, dst, Arc::new(Alone));
        Self {
            optim: self.optim,
            step: self.step,
            ..alone
        }
    }

    /// A backward pass for nothing.
    pub fn extra_pass(&mut self) {
        self.net.loss(self.step, 0..1).backward();
    }

    /// The mean loss of all ranks.
    pub fn step(&mut self) -> Result<f64, DstError> {
        let parts = self.parts.iter().cloned();
        let losses: Vec<_> = parts.map(|rows| self.net.loss(self.step, rows)).collect();
        let loss = Tensor::cat(losses, 0).mean();
        self.step += 1;
        let grads = GradientsParams::from_grads(loss.backward(), &self.net);
        let grads = reduce_gradients(&*self.ranks, &self.net, grads)?;
        let net = self.optim.step(0.3, self.net.clone(), grads);
        let (net, result) = self.dst.try_step(net, &mut self.optim);
        self.net = net;
        result?;
        let own = floats(&loss)[0].to_le_bytes().to_vec();
        let all = self.ranks.all_gather("losses", own)?;
        let all = all
            .iter()
            .map(|bytes| f64::from_le_bytes(bytes[..].try_into().unwrap()));
        Ok(all.sum::<f64>() / self.ranks.ranks() as f64)
    }
}

/// What each thread of a group makes of its rank and its device, which has autodiff.
///
/// The group is that of `communicators`, with less patience.
pub fn on_devices<T: Send>(
    devices: &[Device],
    act: impl Fn(Arc<dyn Communicator>, Device) -> T + Sync,
) -> Vec<thread::Result<T>> {
    let group = communicators_with_patience(devices, Duration::from_secs(60));
    let devices = devices.iter().cloned().map(Device::autodiff);
    let act = &act;
    thread::scope(|scope| {
        let threads: Vec<_> = group
            .into_iter()
            .zip(devices)
            .map(|(rank, device)| scope.spawn(move || act(rank, device)))
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    })
}

/// As [`on_devices`], with threads of the CPU.
pub fn on_ranks<T: Send>(
    ranks: usize,
    act: impl Fn(Arc<dyn Communicator>) -> T + Sync,
) -> Vec<thread::Result<T>> {
    on_devices(&host(ranks), |ranks, _| act(ranks))
}

/// The CPU as so many devices; for tests that have seen that Flex is there.
pub fn host(ranks: usize) -> Vec<Device> {
    let backend = flex().expect("this test is for flex");
    vec![backend.device; ranks]
}

/// Fails where `act` does not end, as ranks that wait for ever would not. They stay behind, so that the
/// other tests go on.
pub fn in_time(act: impl FnOnce() + Send + 'static) {
    let (end, ended) = channel();
    let thread = thread::spawn(move || {
        act();
        end.send(()).ok();
    });
    match ended.recv_timeout(Duration::from_secs(120)) {
        Ok(()) => {}
        Err(RecvTimeoutError::Timeout) => panic!("a rank waits for ever"),
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(payload) => resume_unwind(payload),
            Ok(()) => unreachable!("a thread that ends says so"),
        },
    }
}
