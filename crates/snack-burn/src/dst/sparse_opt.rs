//! Learning rates that follow the sparsity of a layer.

use crate::pattern::Pattern;

/// The factors of SparseOpt (2026): with `F_i` non-zeros in row `i`, an update of its weights is
/// multiplied by `sqrt(F_i / mean F)`, which is `sqrt((1 - s_i) / (1 - s))` in terms of the
/// sparsities of the row and of the layer.
///
/// It undoes how normalization after a sparse layer favours rows with few non-zeros. Where all rows
/// have the same number the factors are exactly 1. Adam ignores a factor of the gradient, so there
/// it must multiply the update.
///
/// # Returns
///
/// One factor per row, `[m]`; 0 for rows without non-zeros.
pub fn row_factors(pattern: &Pattern) -> Vec<f32> {
    let (rows, nnz) = (pattern.rows() as f64, pattern.nnz().max(1) as f64);
    let factor = |fan_in: usize| (fan_in as f64 * rows / nnz).sqrt() as f32;
    pattern.fan_in().into_iter().map(factor).collect()
}

/// [`row_factors`] for every slot.
///
/// # Returns
///
/// One factor per non-zero, `[nnz]`.
pub fn slot_factors(pattern: &Pattern) -> Vec<f32> {
    let mut factors = Vec::with_capacity(pattern.nnz());
    for (factor, &end) in row_factors(pattern)
        .into_iter()
        .zip(&pattern.row_offsets()[1..])
    {
        factors.resize(end, factor);
    }
    factors
}

/// `1 / density`, by which SMET (Xiao et al., 2026) multiplies the learning rate of a sparse layer;
/// 1 for a layer without non-zeros.
pub fn density_factor(pattern: &Pattern) -> f32 {
    match pattern.nnz() {
        0 => 1.0,
        nnz => (pattern.size() as f64 / nnz as f64) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Profile;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn factors_follow_the_fan_in() {
        let cols = vec![0, 0, 1, 2, 3, 0, 1, 2, 3];
        let pattern = Pattern::from_offsets([4, 9], vec![0, 1, 5, 5, 9], cols).unwrap();
        // The mean fan-in is 9/4.
        let expected = [4.0f64 / 9.0, 16.0 / 9.0, 0.0, 16.0 / 9.0].map(|x| x.sqrt() as f32);
        assert_eq!(row_factors(&pattern), expected);
        let [a, b, _, c] = expected;
        assert_eq!(slot_factors(&pattern), [a, b, b, b, b, c, c, c, c]);
        assert_eq!(density_factor(&pattern), 4.0);
    }

    /// The square of the factors averages to 1 over rows: the mean step does not change.
    #[test]
    fn squares_average_to_1() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let profile = Profile::LogNormal { cv: 1.0 };
        let pattern = profile.pattern([300, 200], 6000, &mut rng).unwrap();
        let factors = row_factors(&pattern);
        let mean = factors.iter().map(|&f| f64::from(f).powi(2)).sum::<f64>() / 300.0;
        assert!((mean - 1.0).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn equal_fan_ins_change_nothing() {
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        for (shape, fan_in) in [([7, 11], 3), ([49, 100], 7), ([1000, 784], 78), ([3, 5], 5)] {
            let nnz = shape[0] * fan_in;
            let pattern = Profile::Constant.pattern(shape, nnz, &mut rng).unwrap();
            assert!(slot_factors(&pattern).iter().all(|&factor| factor == 1.0));
        }
    }

    #[test]
    fn empty_patterns_have_no_factors_to_speak_of() {
        let pattern = Pattern::empty([2, 3]).unwrap();
        assert_eq!(row_factors(&pattern), [0.0, 0.0]);
        assert!(slot_factors(&pattern).is_empty());
        assert_eq!(density_factor(&pattern), 1.0);
        assert!(row_factors(&Pattern::empty([0, 3]).unwrap()).is_empty());
    }
}
