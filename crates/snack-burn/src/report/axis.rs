//! Ticks and labels of axes.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Where the labels of an axis are, and what they say.
#[derive(Clone)]
pub(super) struct Axis {
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<f64>,
    /// Digits after the point, of an axis with equal steps.
    decimals: Option<usize>,
}

impl Axis {
    /// Equal steps of 1, 2 or 5 times a power of ten, at most so many labels.
    pub fn linear(low: f64, high: f64, most: usize) -> Self {
        Self::stepped(low, high, nice_step((high - low) / most.max(1) as f64))
    }

    /// As [`linear`](Self::linear) with whole numbers as labels.
    pub fn whole(low: f64, high: f64, most: usize) -> Self {
        let step = nice_step((high - low) / most.max(1) as f64);
        Self::stepped(low, high, step.max(1.0))
    }

    /// Logarithms of the given positive bounds, with labels at 1, 2 and 5 times powers of ten, at
    /// powers alone where those are many.
    pub fn logarithmic(low: f64, high: f64, most: usize) -> Self {
        let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let at = |factors: &[f64]| -> Vec<f64> {
            let all = powers.clone().flat_map(|power| {
                factors
                    .iter()
                    .map(move |factor| factor * 10_f64.powi(power))
            });
            all.filter(|value| (low..=high).contains(value)).collect()
        };
        let fine = at(&[1.0, 2.0, 5.0]);
        let mut ticks = match fine.len() <= most {
            true => fine,
            false => at(&[1.0]),
        };
        let every = ticks.len().div_ceil(most.max(1)).max(1);
        ticks = ticks.into_iter().step_by(every).collect();
        Self {
            low: low.log10(),
            high: high.log10(),
            ticks: ticks.into_iter().map(f64::log10).collect(),
            decimals: None,
        }
    }

    fn stepped(low: f64, high: f64, step: f64) -> Self {
        let first = (low / step - 1e-9).ceil();
        let last = (high / step + 1e-9).floor();
        let count = (last - first).clamp(-1.0, 100.0) as i64;
        // Adding zero turns -0 into 0.
        let ticks = (0..=count).map(|index| (first + index as f64) * step + 0.0);
        Self {
            low,
            high,
            ticks: ticks.collect(),
            decimals: Some((-(step.log10() + 1e-9).floor()).max(0.0) as usize),
        }
    }

    /// The label of a tick.
    pub fn label(&self, tick: f64) -> String {
        match self.decimals {
            Some(0) if tick.abs() < 1e15 => grouped(tick.round() as i64),
            Some(decimals) if decimals <= 6 => format!("{tick:.decimals$}"),
            Some(_) => format!("{tick:.1e}"),
            None => {
                let value = 10_f64.powf(tick);
                match value {
                    1e-3..1e6 => {
                        let decimals = (-(value.log10() + 1e-9).floor()).max(0.0) as usize;
                        format!("{value:.decimals$}")
                    }
                    _ => format!("{value:.0e}"),
                }
            }
        }
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        let place = (value - self.low) / (self.high - self.low);
        begin + (place * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// 1, 2 or 5 times a power of ten, at least the given step.
fn nice_step(least: f64) -> f64 {
    if !(least > 0.0 && least.is_finite()) {
        return 1.0;
    }
    let unit = 10_f64.powf(least.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * unit);
    let fits = nice.into_iter().find(|step| *step >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0 * unit)
}

/// A number with its thousands set apart, as in `1,234,567`.
fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|&tick| axis.label(tick)).collect()
    }

    #[test]
    fn steps_are_whole_without_repeats() {
        assert_eq!(labels(&Axis::whole(0.0, 3.0, 8)), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Axis::whole(-0.5, 0.5, 8)), ["0"]);
        assert_eq!(labels(&Axis::whole(-0.5, 1.5, 8)), ["0", "1"]);
        assert_eq!(
            labels(&Axis::whole(0.0, 20_000.0, 8)),
            ["0", "5,000", "10,000", "15,000", "20,000"]
        );
    }

    #[test]
    fn labels_have_the_digits_that_tell_them_apart() {
        let narrow = Axis::linear(0.011, 0.013, 5);
        assert_eq!(
            labels(&narrow),
            ["0.0110", "0.0115", "0.0120", "0.0125", "0.0130"]
        );
        assert_eq!(
            labels(&Axis::linear(0.0, 1.0, 5)),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        let tiny = labels(&Axis::linear(1.0e-9, 3.0e-9, 5));
        assert!(
            tiny.len() >= 3 && tiny.windows(2).all(|pair| pair[0] != pair[1]),
            "{tiny:?}"
        );
        assert_eq!(labels(&Axis::linear(4.0, 4.0, 5)), ["4"]);
    }

    #[test]
    fn logarithms_are_labelled_at_round_numbers() {
        assert_eq!(
            labels(&Axis::logarithmic(0.9, 12.0, 8)),
            ["1", "2", "5", "10"]
        );
        assert_eq!(
            labels(&Axis::logarithmic(0.02, 100.0, 5)),
            ["0.1", "1", "10", "100"]
        );
        let wide = labels(&Axis::logarithmic(1e-12, 1e12, 6));
        assert!((3..=6).contains(&wide.len()), "{wide:?}");
    }
}
