//! Configuration of sparse layers.

use burn::config::Config;
use burn::module::{Param, ParamId};
use burn::nn::Initializer;
use burn::tensor::{Device, Distribution, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::initializer::draw_bias;
use super::{MaskedLinear, SparseInitializer, SparseLinear};
use crate::ops::Routines;
use crate::pattern::{Pattern, Profile, nnz_for_sparsity};
use crate::tensor::DevicePattern;

/// Configuration of a [`SparseLinear`] layer, or of the [`MaskedLinear`] layer that equals it.
#[derive(Config, Debug)]
pub struct SparseLinearConfig {
    /// The size of the input features, `k`.
    pub d_input: usize,
    /// The size of the output features, `m`.
    pub d_output: usize,
    /// The share of weights that do not exist, in `[0, 1)`.
    #[config(default = 0.9)]
    pub sparsity: f64,
    /// The exact number of non-zeros; takes the place of `sparsity`.
    pub nnz: Option<usize>,
    /// How many inputs every output has.
    #[config(default = "Profile::Free")]
    pub profile: Profile,
    /// How the coordinates are drawn with [`Profile::Free`]. With other profiles it is always
    /// [`PatternSampler::Ranks`] in every row.
    #[config(default = "PatternSampler::Ranks")]
    pub sampler: PatternSampler,
    /// If a bias should be applied.
    #[config(default = true)]
    pub bias: bool,
    /// How the non-zeros are drawn.
    #[config(default = "SparseInitializer::FanInUniform { gain: 1.0 }")]
    pub initializer: SparseInitializer,
    /// How the bias is drawn. `None` is the scheme of [`Linear`](burn::nn::Linear),
    /// `U(-a, a)` with `a = 1 / sqrt(d_input)`.
    pub bias_initializer: Option<Initializer>,
    /// Seed of coordinates, values and bias. `None` draws a seed from the device's random stream,
    /// so that [`Device::seed`] makes a whole model reproducible.
    pub seed: Option<u64>,
}

/// How random coordinates are drawn; both are uniform over all patterns of the same size.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum PatternSampler {
    /// Distinct ranks by Floyd's algorithm: no retries at any density.
    Ranks,
    /// Algorithm 2 of SNACK: coordinates drawn until fresh, with a hash set.
    Rejection,
}

/// Everything random about a layer, drawn on the host.
pub(crate) struct Draw {
    pub pattern: Pattern,
    pub values: Vec<f32>,
    pub bias: Option<Vec<f32>>,
}

impl SparseLinearConfig {
    /// Initializes a truly sparse layer; memory and time are linear in the number of non-zeros.
    ///
    /// # Panics
    ///
    /// Panics if `sparsity` is not in `[0, 1)`, if `nnz` exceeds `d_input * d_output`, if a
    /// dimension exceeds `i32::MAX`, if the profile has a number out of range, or if an initializer
    /// has no sparse form or bounds that are no numbers.
    pub fn init(&self, device: &Device) -> SparseLinear {
        let Draw {
            pattern,
            values,
            bias,
        } = self.draw(device);
        SparseLinear {
            values: parameter(values, device),
            pattern: DevicePattern::new(pattern, device),
            bias: bias.map(|bias| parameter(bias, device)),
            routines: Routines::default(),
        }
    }

    /// Initializes the dense layer with a binary mask that computes the same function: with the
    /// same seed its pattern, values and bias equal those of [`init`](Self::init).
    ///
    /// This allocates `d_input * d_output` elements, on the host too.
    ///
    /// # Panics
    ///
    /// As [`init`](Self::init).
    pub fn init_masked(&self, device: &Device) -> MaskedLinear {
        let draw = self.draw(device);
        let bias = draw.bias.map(|bias| parameter(bias, device));
        MaskedLinear::from_parts(&draw.pattern, &draw.values, bias, device)
    }

    fn draw(&self, device: &Device) -> Draw {
        let shape = [self.d_output, self.d_input];
        let seed = self.seed.unwrap_or_else(|| seed_from(device));
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let invalid = |error| -> ! { panic!("SparseLinearConfig: {error}") };
        let nnz = match self.nnz {
            Some(nnz) => nnz,
            None => nnz_for_sparsity(shape, self.sparsity).unwrap_or_else(|error| invalid(error)),
        };
        let pattern = match (self.profile, self.sampler) {
            (Profile::Free, PatternSampler::Rejection) => {
                Pattern::random_by_rejection(shape, nnz, &mut rng)
            }
            (profile, _) => profile.pattern(shape, nnz, &mut rng),
        }
        .unwrap_or_else(|error| invalid(error));
        let values = self.initializer.draw_values(&pattern, &mut rng);
        let bias = self.bias.then(|| {
            let initializer = self.bias_initializer.clone().unwrap_or(LINEAR_BIAS);
            draw_bias(&initializer, self.d_input, self.d_output, &mut rng)
        });
        Draw {
            pattern,
            values,
            bias,
        }
    }
}

/// `U(-a, a)` with `a = 1 / sqrt(fan_in)`: the default of Burn's and PyTorch's `Linear`.
const LINEAR_BIAS: Initializer = Initializer::KaimingUniform {
    gain: 0.577_350_269_189_625_8,
    fan_out_only: false,
};

/// 64 bits of the device's random stream.
fn seed_from(device: &Device) -> u64 {
    const WORD: f64 = 65_536.0;
    let device = device.clone().without_autodiff();
    Tensor::<1>::random([4], Distribution::Uniform(0.0, WORD), &device)
        .into_data()
        .iter::<f64>()
        .fold(0, |seed, word| {
            (seed << 16) | (word.clamp(0.0, WORD - 1.0) as u64)
        })
}

pub(crate) fn parameter(values: Vec<f32>, device: &Device) -> Param<Tensor<1>> {
    let length = values.len();
    let data = TensorData::new(values, [length]);
    device.memory_persistent_allocations(data, |data| {
        Param::from_mapped_value(
            ParamId::new(),
            Tensor::from_data(data, device),
            Default::default(),
        )
        .set_require_grad(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(profile: Profile) -> SparseLinearConfig {
        SparseLinearConfig::new(60, 40)
            .with_sparsity(0.8)
            .with_profile(profile)
            .with_seed(Some(5))
    }

    #[test]
    fn a_profile_shapes_sparse_and_masked_layers_alike() {
        let device = Device::default();
        for profile in [
            Profile::Free,
            Profile::Constant,
            Profile::LogNormal { cv: 1.0 },
            Profile::PowerLaw { gamma: 0.5 },
        ] {
            let config = config(profile);
            let sparse = config.init(&device);
            assert_eq!(sparse.nnz(), 480);
            let masked = config.init_masked(&device);
            let pruned = masked.pruned.val().into_data();
            let kept = pruned.iter::<bool>().filter(|pruned| !pruned).count();
            assert_eq!(kept, 480, "{profile:?}");
            let values = sparse.values.val().into_data();
            let dense: Vec<f32> = masked.masked_weight().into_data().iter().collect();
            for ((row, col), value) in sparse.pattern().iter().zip(values.iter::<f32>()) {
                assert_eq!(dense[col * 40 + row], value, "{profile:?} ({row}, {col})");
            }
        }
    }

    #[test]
    fn fan_ins_follow_the_profile() {
        let device = Device::default();
        let fan_in = |profile| config(profile).init(&device).pattern().fan_in();
        assert_eq!(fan_in(Profile::Constant), [12; 40]);
        let skewed = Profile::LogNormal { cv: 0.8 };
        let cv = crate::pattern::coefficient_of_variation(&fan_in(skewed));
        assert!((0.6..0.8).contains(&cv), "{cv}");
    }

    #[test]
    fn without_a_profile_the_coordinates_are_those_of_the_seed() {
        let layer = config(Profile::Free).init(&Device::default());
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let expected = Pattern::random([40, 60], 480, &mut rng).unwrap();
        assert_eq!(*layer.pattern(), expected);
    }

    #[test]
    #[should_panic(expected = "SparseLinearConfig: coefficient of variation NaN")]
    fn a_profile_out_of_range_panics() {
        config(Profile::LogNormal { cv: f64::NAN }).init(&Device::default());
    }
}
