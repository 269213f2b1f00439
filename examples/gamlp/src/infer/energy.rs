use std::time::{Duration, Instant};

/// How energy is measured by a counter that moves only now and then, as that of NVML: from one of its
/// movements to another, over as many runs as fit between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnergyWindow {
    /// Shortest time between the two movements.
    pub length: Duration,
    /// Time between two looks at the counter, which bounds how late a movement is seen.
    pub poll: Duration,
}

impl Default for EnergyWindow {
    /// A second, looked at every 20 milliseconds: off by a twentieth at most.
    fn default() -> Self {
        Self {
            length: Duration::from_secs(1),
            poll: Duration::from_millis(20),
        }
    }
}

impl EnergyWindow {
    /// Energy per call of `run`, in the unit of the counter that `read` asks; nothing if it cannot
    /// be read, or stands still for four times the length of the window.
    ///
    /// # Errors
    ///
    /// That of the first run that has one.
    pub fn per_run<E>(
        &self,
        mut read: impl FnMut() -> Option<u64>,
        mut run: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Option<f64>, E> {
        let Some(mut last) = read() else {
            return Ok(None);
        };
        let begin = Instant::now();
        let mut seen = begin;
        // When the window began and what the counter was then, and the runs since.
        let mut start = None;
        let mut runs = 0_usize;
        for index in 0.. {
            run(index)?;
            runs += 1;
            let now = Instant::now();
            if now - seen < self.poll {
                continue;
            }
            seen = now;
            let Some(reading) = read().filter(|_| now - begin < 4 * self.length) else {
                return Ok(None);
            };
            if reading == last {
                continue;
            }
            last = reading;
            match start {
                None => {
                    start = Some((now, reading));
                    runs = 0;
                }
                Some((time, before)) if now - time >= self.length => {
                    return Ok(Some(reading.saturating_sub(before) as f64 / runs as f64));
                }
                Some(_) => {}
            }
        }
        unreachable!("the loop ends with the counter or with time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const WINDOW: EnergyWindow = EnergyWindow {
        length: Duration::from_millis(20),
        poll: Duration::from_micros(1),
    };

    fn per_run(counter: impl Fn(usize) -> Option<u64>) -> Option<f64> {
        let runs = Cell::new(0);
        let run = |_| {
            std::thread::sleep(Duration::from_micros(50));
            runs.set(runs.get() + 1);
            Ok::<_, ()>(())
        };
        WINDOW.per_run(|| counter(runs.get()), run).unwrap()
    }

    #[test]
    fn a_counter_that_moves_in_steps_gives_the_energy_of_a_run() {
        // Three a run, but seen only every seventh.
        assert_eq!(
            per_run(|runs| Some(1000 + (runs / 7 * 21) as u64)),
            Some(3.0)
        );
    }

    #[test]
    fn a_counter_that_stands_still_or_is_absent_gives_nothing() {
        assert_eq!(per_run(|_| Some(5)), None);
        assert_eq!(per_run(|_| None), None);
        assert_eq!(per_run(|runs| (runs < 9).then_some(runs as u64)), None);
    }

    #[test]
    fn a_failing_run_ends_it() {
        let run = |index| if index < 3 { Ok(()) } else { Err(index) };
        assert_eq!(WINDOW.per_run(|| Some(0), run), Err(3));
    }
}
