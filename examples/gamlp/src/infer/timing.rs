use super::{EnergyWindow, Predictor};
use crate::{GamlpError, GpuMeter};
use burn::tensor::Device;
use serde::Serialize;
use std::time::Instant;

/// How often something is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeat {
    /// Runs before the clock starts.
    pub warmup: usize,
    /// Runs that count; at least one.
    pub runs: usize,
}

/// Wall times of single runs, every one waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Timing {
    /// Mean, in microseconds.
    pub mean_us: f64,
    /// Median, in microseconds.
    pub median_us: f64,
    /// What 95 of 100 runs do not exceed, in microseconds.
    pub p95_us: f64,
    /// Energy of the GPU in millijoules a run, where NVML counts it.
    pub mj: Option<f64>,
}

impl Timing {
    /// Times `run`; where there is a meter, more runs follow for about a second to measure energy.
    ///
    /// # Errors
    ///
    /// That of the first run that has one.
    ///
    /// # Panics
    ///
    /// Panics if nothing is to be timed.
    pub fn measure(
        repeat: Repeat,
        meter: Option<&GpuMeter>,
        mut run: impl FnMut(usize) -> Result<(), GamlpError>,
    ) -> Result<Self, GamlpError> {
        assert!(repeat.runs > 0, "Timing::measure: there are no runs");
        for index in 0..repeat.warmup {
            run(index)?;
        }
        let mut times = Vec::with_capacity(repeat.runs);
        for index in 0..repeat.runs {
            let start = Instant::now();
            run(index)?;
            times.push(1e6 * start.elapsed().as_secs_f64());
        }
        let mj = match meter {
            Some(meter) => {
                let read = || Some(meter.read()?.energy_mj);
                EnergyWindow::default().per_run(read, run)?
            }
            None => None,
        };
        Ok(Self {
            mj,
            ..Self::of(times)
        })
    }

    /// Times forward passes over an input that is on the device, each until the device is done.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Device`] if the device fails.
    pub fn of_forward(
        predictor: &mut Predictor,
        repeat: Repeat,
        meter: Option<&GpuMeter>,
        device: &Device,
    ) -> Result<Self, GamlpError> {
        Self::measure(repeat, meter, |_| {
            let _output = predictor.forward();
            device.sync().map_err(|error| GamlpError::Device {
                reason: error.to_string(),
            })
        })
    }

    /// Times answers: an input goes to the device, its output comes back. Inputs are taken in turns.
    ///
    /// # Errors
    ///
    /// None.
    pub fn of_answers(
        predictor: &mut Predictor,
        inputs: &[Vec<f32>],
        repeat: Repeat,
        meter: Option<&GpuMeter>,
    ) -> Result<Self, GamlpError> {
        Self::measure(repeat, meter, |index| {
            predictor.predict(&inputs[index % inputs.len()]);
            Ok(())
        })
    }

    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[(share * (times.len() - 1) as f64).round() as usize];
        Self {
            mean_us: times.iter().sum::<f64>() / times.len() as f64,
            median_us: at(0.5),
            p95_us: at(0.95),
            mj: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let times: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        let timing = Timing::of(times);
        assert_eq!(
            (timing.mean_us, timing.median_us, timing.p95_us),
            (51.0, 51.0, 96.0)
        );
        assert_eq!(Timing::of(vec![7.0]).p95_us, 7.0);
    }

    #[test]
    fn warm_up_runs_do_not_count() {
        let repeat = Repeat { warmup: 3, runs: 5 };
        let mut runs = Vec::new();
        let run = |index| {
            runs.push(index);
            Ok(())
        };
        Timing::measure(repeat, None, run).unwrap();
        assert_eq!(runs, [0, 1, 2, 0, 1, 2, 3, 4]);
    }
}
