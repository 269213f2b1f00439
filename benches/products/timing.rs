//! Time on the device and time on the wall.

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use burn::tensor::{Device, ProfileDuration, ProfileOptions, TimingMethod, capture};

use super::failure::{caught, reason};
use super::layer::Output;
use super::methods::{Call, Run};

/// How a row is timed.
pub struct Timer {
    device: Device,
    /// Replays of a captured graph where there is one, else the profile of the device.
    graphs: bool,
    /// For each of the two kinds of time.
    budget: Duration,
}

/// The times of one call, in microseconds.
pub struct Times {
    pub device_us: Option<f64>,
    pub wall_us: f64,
    /// What the timed graph wrote, if one was timed.
    pub replayed: Option<Output>,
    /// Why there is no time on the device, or why it is that of ordinary calls.
    pub note: Option<String>,
}

/// Says nothing about a row in particular, so it is no note.
const NO_CLOCK: &str = "no clock on this device";

impl Timer {
    pub fn new(device: &Device, graphs: bool, quick: bool) -> Self {
        Self {
            device: device.clone(),
            graphs,
            budget: Duration::from_millis(if quick { 50 } else { 400 }),
        }
    }

    /// Times a call that has run before.
    pub fn time(&self, call: &Call) -> Times {
        let wall_us = self.wall(call);
        let mut note = None;
        if self.graphs {
            match caught(|| self.graph(call, wall_us)).flatten() {
                Ok((us, replayed)) => {
                    return Times {
                        device_us: Some(us),
                        wall_us,
                        replayed,
                        note,
                    };
                }
                Err(why) => note = Some(format!("eager, no graph: {why}")),
            }
        }
        match caught(|| self.profile(call, wall_us)).flatten() {
            Ok(us) => Times {
                device_us: Some(us),
                wall_us,
                replayed: None,
                note,
            },
            Err(why) => Times {
                device_us: None,
                wall_us,
                replayed: None,
                note: note.or(Some(why).filter(|why| why != NO_CLOCK)),
            },
        }
    }

    /// The median over calls, each waited for.
    fn wall(&self, call: &Call) -> f64 {
        let once = || {
            let start = Instant::now();
            let outputs = call(Run::Chain(1));
            self.sync();
            let elapsed = start.elapsed();
            drop(outputs);
            elapsed
        };
        let (mut warm, start) = (0, Instant::now());
        while warm < 3 && start.elapsed() < 4 * self.budget {
            once();
            warm += 1;
        }
        let mut samples = vec![once()];
        let start = Instant::now();
        while samples.len() < 200 && start.elapsed() < self.budget {
            samples.push(once());
        }
        microseconds(median(samples))
    }

    /// Replays of a graph of calls: microseconds per call, and what they wrote.
    fn graph(&self, call: &Call, wall_us: f64) -> Result<(f64, Option<Output>), String> {
        let calls = calls_for(wall_us);
        let mut graph = capture(&self.device, || call(Run::Chain(calls)));
        if !graph.is_hardware() {
            return Err("not captured".to_string());
        }
        let mut replay = |times: u32| {
            let start = Instant::now();
            for _ in 0..times {
                // SAFETY: the operands live in `call` and the outputs in the graph. What the chain
                // wrote between them is memory of the same pool, and nothing is allocated and no
                // other stream runs between the capture and the last synchronization.
                let _ = unsafe { graph.replay() };
            }
            self.sync();
            start.elapsed() / times
        };
        replay(1);
        let estimate = replay(2).max(Duration::from_nanos(1));
        let times = (self.budget.as_secs_f64() / 5.0 / estimate.as_secs_f64()).ceil();
        let times = (times as u32).clamp(1, 1000);
        let samples = (0..5).map(|_| replay(times)).collect();
        let us = microseconds(median(samples)) / calls as f64;
        let last = graph.output().last().and_then(Output::share);
        Ok((us, last))
    }

    /// The device's own clock around a chain of calls.
    fn profile(&self, call: &Call, wall_us: f64) -> Result<f64, String> {
        let calls = calls_for(wall_us);
        let once = || {
            let options = ProfileOptions::default().flush();
            let window = self
                .device
                .profile_with(options, || call(Run::Chain(calls)))
                .map_err(|error| reason(&error.to_string()))?;
            let (outputs, duration) = window;
            if duration.timing_method() == TimingMethod::System {
                return Err(NO_CLOCK.to_string());
            }
            let elapsed = resolve(duration).ok_or("the device measured nothing")?;
            drop(outputs);
            Ok::<_, String>(elapsed)
        };
        once()?;
        let mut samples = vec![once()?];
        let start = Instant::now();
        while samples.len() < 20 && start.elapsed() < self.budget {
            samples.push(once()?);
        }
        Ok(microseconds(median(samples)) / calls as f64)
    }

    /// # Panics
    ///
    /// Panics if the device failed.
    fn sync(&self) {
        self.device.sync().expect("the device finishes its work");
    }
}

/// Enough calls to hide what one window costs, few enough to leave memory for their outputs.
fn calls_for(wall_us: f64) -> usize {
    match wall_us {
        slow if slow > 4000.0 => 1,
        us => (2000.0 / us).clamp(2.0, 40.0) as usize,
    }
}

fn microseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort();
    samples[samples.len() / 2]
}

/// Waits for the device to answer.
fn resolve(duration: ProfileDuration) -> Option<Duration> {
    let mut future = duration.into_future();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(ticks) => return ticks.map(|ticks| ticks.duration()),
            Poll::Pending => std::thread::yield_now(),
        }
    }
}
