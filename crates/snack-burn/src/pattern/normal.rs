use std::f64::consts::PI;

/// The numbers `z_i` below which a standard normal variable falls with probability
/// `(i + 1/2) / count`, increasing.
pub(super) fn quantiles(count: usize) -> Vec<f64> {
    let mut upper = Vec::with_capacity(count / 2 + 1);
    let mut z = 0.0;
    for index in count / 2..count {
        let probability = (index as f64 + 0.5) / count as f64;
        z = quantile_from(z, probability);
        upper.push(z);
    }
    // The law is symmetric; the upper half includes the middle of an odd count.
    let lower = upper.iter().skip(count % 2).rev().map(|z| -z);
    lower.chain(upper.iter().copied()).collect()
}

/// The quantile of a probability of at least 1/2, by Newton's method. Above 0 the distribution
/// function is concave, so that from any start below the quantile the steps climb to it.
fn quantile_from(start: f64, probability: f64) -> f64 {
    let mut z = start;
    for _ in 0..100 {
        let (cumulative, density) = normal(z);
        let step = (probability - cumulative) / density;
        z += step;
        if step.abs() <= 1e-12 * (1.0 + z) {
            break;
        }
    }
    z
}

/// Distribution function and density of the standard normal law at `z >= 0`, by the series
/// `1/2 + density (z + z^3 / 3 + z^5 / (3 5) + ...)`, whose terms are all positive.
fn normal(z: f64) -> (f64, f64) {
    let density = (-0.5 * z * z).exp() / (2.0 * PI).sqrt();
    let (mut sum, mut term, mut odd) = (0.0, z, 1.0);
    while term > f64::EPSILON * sum {
        sum += term;
        odd += 2.0;
        term *= z * z / odd;
    }
    (0.5 + density * sum, density)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_tables() {
        for (z, cumulative) in [
            (0.0, 0.5),
            (1.0, 0.841_344_746_068_542_9),
            (1.959_963_984_540_054, 0.975),
            (3.090_232_306_167_813, 0.999),
            (4.753_424_308_822_899, 0.999_999),
        ] {
            assert!((normal(z).0 - cumulative).abs() < 1e-15, "{z}");
            assert!((quantile_from(0.0, cumulative) - z).abs() < 1e-9, "{z}");
        }
    }

    #[test]
    fn quantiles_are_symmetric_and_increase() {
        for count in [0, 1, 2, 3, 10, 11, 1000] {
            let z = quantiles(count);
            assert_eq!(z.len(), count);
            assert!(z.is_sorted_by(|a, b| a < b));
            for index in 0..count {
                assert!((z[index] + z[count - 1 - index]).abs() < 1e-12);
            }
        }
        // The quartiles.
        assert!((quantiles(2)[1] - 0.674_489_750_196_081_7).abs() < 1e-12);
    }

    #[test]
    fn reaches_the_far_tail() {
        let count = 2_000_000_000.0;
        let z = quantile_from(0.0, (count - 0.5) / count);
        // 1 - 2.5e-10.
        assert!((z - 6.219_5).abs() < 1e-3, "{z}");
    }
}
