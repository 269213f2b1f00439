//! Initial values of sparse layers.

use burn::config::Config;
use burn::nn::Initializer;
use rand::Rng;
use rand_distr::{Distribution, Normal, Uniform};

use crate::pattern::Pattern;

/// How the non-zeros of a sparse layer are drawn.
#[derive(Config, Debug, PartialEq)]
pub enum SparseInitializer {
    /// `U(-a, a)` with `a = gain / sqrt(F_i)`, where `F_i` is the number of non-zeros in row `i`,
    /// so that every output starts with the variance of a dense layer of its own fan-in.
    FanInUniform {
        /// 1 gives the bound of Burn's and PyTorch's `Linear`; `sqrt(6)` suits ReLU.
        gain: f64,
    },
    /// `N(0, gain^2 / F_i)` per row (Evci et al., "Gradient Flow in Sparse Neural Networks", 2022).
    FanInNormal {
        /// `sqrt(2)` suits ReLU.
        gain: f64,
    },
    /// The scheme of the dense layer of the same shape, so that a masked dense layer is
    /// distributed equally. `Orthogonal` is not supported: it has no meaning on a subset.
    Dense(Initializer),
}

/// The law of one number: everything that a dense initializer can ask for.
enum Law {
    Constant(f64),
    Uniform(f64, f64),
    Normal(f64, f64),
}

impl Law {
    fn dense(initializer: &Initializer, fan_in: usize, fan_out: usize) -> Self {
        let (fan_in, fan_out) = (fan_in.max(1) as f64, fan_out.max(1) as f64);
        let kaiming = |gain: f64, fan_out_only: bool| match fan_out_only {
            true => gain / fan_out.sqrt(),
            false => gain / fan_in.sqrt(),
        };
        let xavier = |gain: f64| gain * (2.0 / (fan_in + fan_out)).sqrt();
        let symmetric = |std: f64| Self::Uniform(-3f64.sqrt() * std, 3f64.sqrt() * std);
        match *initializer {
            Initializer::Constant { value } => Self::Constant(value),
            Initializer::Ones => Self::Constant(1.0),
            Initializer::Zeros => Self::Constant(0.0),
            Initializer::Uniform { min, max } => Self::Uniform(min, max),
            Initializer::Normal { mean, std } => Self::Normal(mean, std),
            Initializer::KaimingUniform { gain, fan_out_only } => {
                symmetric(kaiming(gain, fan_out_only))
            }
            Initializer::KaimingNormal { gain, fan_out_only } => {
                Self::Normal(0.0, kaiming(gain, fan_out_only))
            }
            Initializer::XavierUniform { gain } => symmetric(xavier(gain)),
            Initializer::XavierNormal { gain } => Self::Normal(0.0, xavier(gain)),
            Initializer::Orthogonal { .. } => panic!(
                "a sparse layer cannot be initialized with `Orthogonal`, which is defined for \
                 whole matrices only"
            ),
        }
    }

    fn draw<R: Rng + ?Sized>(&self, rng: &mut R) -> f32 {
        let invalid = |what: &str| -> ! { panic!("invalid initializer: {what}") };
        match *self {
            Self::Constant(value) => value as f32,
            Self::Uniform(min, max) if min == max => min as f32,
            Self::Uniform(min, max) => match Uniform::new(min, max) {
                Ok(law) => law.sample(rng) as f32,
                Err(_) => invalid(&format!("uniform bounds {min}..{max}, expected min <= max")),
            },
            Self::Normal(mean, std) => match Normal::new(mean, std) {
                Ok(law) => law.sample(rng) as f32,
                Err(_) => invalid(&format!(
                    "standard deviation {std}, expected a finite number"
                )),
            },
        }
    }
}

impl SparseInitializer {
    /// One value per slot of `pattern`, in slot order.
    pub(crate) fn draw_values<R: Rng + ?Sized>(&self, pattern: &Pattern, rng: &mut R) -> Vec<f32> {
        let [d_output, d_input] = pattern.shape();
        let mut values = Vec::with_capacity(pattern.nnz());
        for row in 0..d_output {
            let fan_in = pattern.row(row).len();
            let scale = 1.0 / (fan_in.max(1) as f64).sqrt();
            let law = match self {
                Self::FanInUniform { gain } => Law::Uniform(-gain * scale, gain * scale),
                Self::FanInNormal { gain } => Law::Normal(0.0, gain * scale),
                Self::Dense(initializer) => Law::dense(initializer, d_input, d_output),
            };
            values.extend((0..fan_in).map(|_| law.draw(rng)));
        }
        values
    }
}

/// `count` numbers as a dense layer of the given fan-in and fan-out draws its bias.
pub(crate) fn draw_bias<R: Rng + ?Sized>(
    initializer: &Initializer,
    d_input: usize,
    d_output: usize,
    rng: &mut R,
) -> Vec<f32> {
    let law = Law::dense(initializer, d_input, d_output);
    (0..d_output).map(|_| law.draw(rng)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    fn variance(values: &[f32]) -> f64 {
        values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values.len() as f64
    }

    /// A row with few inputs and a row with many start with the same pre-activation variance.
    #[test]
    fn every_row_keeps_the_variance_of_its_own_fan_in() {
        let cols: Vec<u32> = (0..16).chain(0..4000).collect();
        let pattern = Pattern::from_offsets([2, 4000], vec![0, 16, 4016], cols).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for (initializer, expected) in [
            (SparseInitializer::FanInNormal { gain: 2f64.sqrt() }, 2.0),
            (SparseInitializer::FanInUniform { gain: 6f64.sqrt() }, 2.0),
        ] {
            let mut short = 0.0;
            let mut long = 0.0;
            for _ in 0..200 {
                let values = initializer.draw_values(&pattern, &mut rng);
                short += variance(&values[..16]) * 16.0 / 200.0;
                long += variance(&values[16..]) * 4000.0 / 200.0;
            }
            assert!((short - expected).abs() < 0.15, "{initializer:?}: {short}");
            assert!((long - expected).abs() < 0.05, "{initializer:?}: {long}");
        }
    }

    #[test]
    fn dense_scheme_ignores_the_pattern() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let pattern = Pattern::random([100, 400], 4000, &mut rng).unwrap();
        let dense = Initializer::KaimingUniform {
            gain: 1.0 / 3f64.sqrt(),
            fan_out_only: false,
        };
        let values = SparseInitializer::Dense(dense).draw_values(&pattern, &mut rng);
        let bound = 1.0 / 400f32.sqrt();
        assert!(values.iter().all(|v| v.abs() <= bound));
        assert!(values.iter().any(|v| v.abs() > 0.95 * bound));
    }

    #[test]
    #[should_panic(expected = "cannot be initialized with `Orthogonal`")]
    fn orthogonal_is_refused() {
        let pattern = Pattern::full([2, 2]).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        SparseInitializer::Dense(Initializer::Orthogonal { gain: 1.0 })
            .draw_values(&pattern, &mut rng);
    }
}
