//! The least time that a problem could take.

use burn::tensor::{Device, Distribution, Tensor};

use super::args::Args;
use super::device::DeviceName;
use super::layer::Output;
use super::methods::{Call, kept};
use super::problems::{Op, Problem};
use super::timing::Timer;

/// The rates of a device that bound a sparse product.
#[derive(Debug, Clone, Copy)]
pub struct Ceilings {
    /// Bytes per second, where known.
    bandwidth: Option<f64>,
    /// Bytes per second of problems that fit the cache, and how many bytes that is.
    cache: Option<(f64, f64)>,
    /// Operations per second, a multiply-add being two.
    flops: Option<f64>,
}

impl Ceilings {
    /// The rates from the command line, a missing bandwidth measured by a copy on CUDA only: a
    /// copy on the host or on a GPU in software is slower than reads from its caches. The text
    /// says which.
    pub fn new(args: &Args, device: &Device, timer: &Timer) -> (Self, String) {
        let (bandwidth, source) = match (args.bandwidth, args.device) {
            (Some(rate), _) => (Some(rate * 1e9), "given"),
            (None, DeviceName::Cuda) => (
                Some(copy_rate(device, timer)),
                "a measured copy, read and written",
            ),
            (None, _) => (None, ""),
        };
        let ceilings = Self {
            bandwidth,
            cache: args
                .cache_bandwidth
                .map(|rate| (rate * 1e9, args.cache_mb * 1e6)),
            flops: args.tflops.map(|rate| rate * 1e12),
        };
        let cache = ceilings.cache.map_or(String::new(), |(rate, bytes)| {
            format!(
                ", {:.0} GB/s up to {:.0} MB (given)",
                rate / 1e9,
                bytes / 1e6
            )
        });
        let flops = ceilings.flops.map_or("no arithmetic".to_string(), |rate| {
            format!("{:.1} TFLOP/s (given)", rate / 1e12)
        });
        let text = bandwidth.map_or("none without --bandwidth".to_string(), |rate| {
            format!("{:.0} GB/s ({source}){cache}, {flops}", rate / 1e9)
        });
        (ceilings, text)
    }

    /// The larger of bytes over bandwidth and operations over their rate, in microseconds; `None`
    /// where no bandwidth is known.
    pub fn floor_us(&self, problem: &Problem, bytes: f64) -> Option<f64> {
        let memory = self.bandwidth?;
        let bandwidth = match self.cache {
            Some((rate, fits)) if bytes <= fits => rate,
            _ => memory,
        };
        let arithmetic = self.flops.map_or(0.0, |rate| operations(problem) / rate);
        Some(1e6 * f64::max(bytes / bandwidth, arithmetic))
    }
}

/// Every array of a problem once: an index and a value per non-zero, the row offsets, and the
/// dense operands. The weight part of a step is read for the output, read and written with SGD
/// fused into its gradient, and read for the gradient of the input.
pub fn bytes(problem: &Problem, device: DeviceName) -> f64 {
    // As the library stores the columns of such a pattern.
    let halved = device != DeviceName::Flex && problem.m.max(problem.k) <= 1 << 16;
    let column = if halved { 2.0 } else { 4.0 };
    let element = problem.dtype.dtype().size() as f64;
    let [m, k, nnz, batch] =
        [problem.m, problem.k, problem.nnz, problem.batch].map(|size| size as f64);
    let pass = nnz * (column + element) + 4.0 * (m + 1.0);
    let operands = element * batch * (m + k);
    match problem.op {
        Op::Spmm | Op::SpmmTransposed | Op::Sddmm => pass + operands,
        Op::Forward => pass + operands + element * m,
        Op::Step => 3.0 * (pass + operands) + nnz * element,
    }
}

fn operations(problem: &Problem) -> f64 {
    let products = if problem.op == Op::Step { 3.0 } else { 1.0 };
    2.0 * products * problem.nnz as f64 * problem.batch as f64
}

fn copy_rate(device: &Device, timer: &Timer) -> f64 {
    let elements: usize = 1 << 27;
    let x = Tensor::<1>::random([elements], Distribution::Normal(0.0, 1.0), device);
    let copy: Call = Box::new(move |run| kept(run.calls(), || Output::Values(x.clone() + 1.0)));
    let times = timer.time(&copy);
    2.0 * 4.0 * elements as f64 / (times.device_us.unwrap_or(times.wall_us) * 1e-6)
}
