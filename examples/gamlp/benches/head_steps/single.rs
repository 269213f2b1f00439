//! The head, and the whole network, on a single node.

use std::time::{Duration, Instant};

use burn::tensor::{Device, Tensor};
use gamlp::{GamlpConfig, InputLayout, Predictor, Projection, Repeat, Timing};
use serde::Serialize;
use snack_burn::capture::Captured;

use crate::{Bench, Memory, stored_bytes};

/// Most passes of the whole network operation by operation, of which each takes milliseconds.
const NETWORK_EAGER: usize = 200;
/// Replays that a device time is the median of, and how long each of them takes.
const REPLAYS: usize = 7;
const REPLAY: Duration = Duration::from_millis(30);

/// One row or node at a time.
#[derive(Debug, Serialize)]
pub struct Served {
    /// Wall time operation by operation, every run waited for.
    pub eager: Timing,
    /// The same as a recorded graph, where the device has such.
    pub captured: Timing,
    pub hardware: bool,
    /// Wall time of a replay in microseconds where all samples are queued and waited for once.
    pub queued_us: f64,
    /// Microseconds of a run among runs that the device does one after another without waiting for the
    /// host; absent where there are no recorded graphs.
    pub device_us: Option<f64>,
    /// Weights, coordinates and masks.
    pub stored_mb: f64,
    /// After the runs operation by operation.
    pub memory_eager: Option<Memory>,
    /// After those of the recorded graph as well.
    pub memory: Option<Memory>,
}

impl Bench<'_> {
    /// The square matrix of the head alone.
    pub fn serve_head(&self, config: &GamlpConfig) -> Result<Served, String> {
        self.memory.clear()?;
        let layer = config.init_wide(1, &self.device);
        let bytes = stored_bytes(&layer, layer.index_bytes_now());
        let input = Tensor::ones([1, layer.width()], &self.device);
        self.serve(input, bytes, usize::MAX, move |x| layer.forward(x))
    }

    /// The whole network.
    pub fn serve_network(&self, config: &GamlpConfig) -> Result<Served, String> {
        self.memory.clear()?;
        let model = config.init(1, &self.device);
        let layout = InputLayout {
            hops: config.hops + 1,
            features: config.features,
            classes: config.classes,
        };
        let indices = model.sparsifiable().into_iter();
        let indices = indices.map(Projection::index_bytes_now).sum();
        let bytes = stored_bytes(&model, indices);
        let input = Tensor::ones([1, layout.width()], &self.device);
        self.serve(input, bytes, NETWORK_EAGER, move |x| {
            layout.forward(&model, x)
        })
    }

    fn serve(
        &self,
        input: Tensor<2>,
        bytes: usize,
        most_eager: usize,
        function: impl Fn(Tensor<2>) -> Tensor<2> + Clone + 'static,
    ) -> Result<Served, String> {
        let time = |record: bool| {
            let samples = match record {
                false => self.args.samples.min(most_eager),
                true => self.args.samples,
            };
            let repeat = Repeat {
                warmup: 100.min(samples),
                runs: samples,
            };
            let mut predictor = Predictor::new(input.clone(), record, function.clone());
            let timing =
                Timing::of_forward(&mut predictor, repeat, self.meter.as_ref(), &self.device);
            let timing = timing.map_err(|error| error.to_string())?;
            let start = Instant::now();
            for _ in 0..samples {
                predictor.forward();
            }
            wait(&self.device)?;
            let queued_us = 1e6 * start.elapsed().as_secs_f64() / samples as f64;
            let memory = self.memory.read();
            Ok::<_, String>((timing, predictor.is_hardware(), queued_us, memory))
        };
        let (eager, _, _, memory_eager) = time(false)?;
        let (captured, hardware, queued_us, memory) = time(true)?;
        let device_us = match hardware {
            true => Some(self.device_us(input, function)?),
            false => None,
        };
        Ok(Served {
            eager,
            captured,
            hardware,
            queued_us,
            device_us,
            stored_mb: bytes as f64 / 1e6,
            memory_eager,
            memory,
        })
    }

    /// Median over replays of a graph of several runs, many at a time, so that neither launches nor
    /// waiting count.
    fn device_us(
        &self,
        input: Tensor<2>,
        function: impl Fn(Tensor<2>) -> Tensor<2> + 'static,
    ) -> Result<f64, String> {
        let chain = self.args.chain;
        let mut graph = Captured::new(&self.device, move || {
            // All are kept: operator fusion leaves out what nobody wants.
            let runs = (0..chain).map(|_| function(input.clone()));
            runs.collect::<Vec<_>>()
        });
        let mut replay = |times: usize| {
            let start = Instant::now();
            for _ in 0..times {
                graph.replay();
            }
            wait(&self.device)?;
            Ok::<_, String>(start.elapsed().as_secs_f64() / times as f64)
        };
        replay(1)?;
        let times = (REPLAY.as_secs_f64() / replay(3)?.max(1e-7)).ceil() as usize;
        let seconds: Result<Vec<f64>, _> = (0..REPLAYS).map(|_| replay(times)).collect();
        let mut seconds = seconds?;
        seconds.sort_by(f64::total_cmp);
        Ok(1e6 * seconds[REPLAYS / 2] / chain as f64)
    }
}

fn wait(device: &Device) -> Result<(), String> {
    device.sync().map_err(|error| error.to_string())
}
