use super::{SampleError, SamplingOptions};
use std::cmp::Ordering;

/// A token that may come next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The token.
    pub token: usize,
    /// Its probability among the candidates.
    pub probability: f64,
}

/// The tokens that may come next, the most probable first, and of equal ones the first token first. Their
/// probabilities sum to 1.
///
/// The temperature comes first, then `top_k`, and `top_p` of what that leaves.
///
/// # Errors
///
/// Any [`SampleError`].
pub fn distribution(
    logits: &[f32],
    options: &SamplingOptions,
) -> Result<Vec<Candidate>, SampleError> {
    check(logits)?;
    let by_logit = |a: &usize, b: &usize| {
        let order = logits[*b].partial_cmp(&logits[*a]);
        // Equal for two zeros of different sign, too; NaN has been refused.
        order.unwrap_or(Ordering::Equal).then(a.cmp(b))
    };
    let possible = |token: &usize| logits[*token] > f32::NEG_INFINITY;
    let mut order: Vec<usize> = (0..logits.len()).filter(possible).collect();
    let limit = match options.is_greedy() {
        true => 1,
        false => options.top_k.unwrap_or(order.len()),
    };
    if limit < order.len() {
        order.select_nth_unstable_by(limit, by_logit);
        order.truncate(limit);
    }
    order.sort_unstable_by(by_logit);

    let largest = f64::from(logits[order[0]]);
    // A single candidate has weight 1 at temperature 0, too.
    let weight = |token: usize| match f64::from(logits[token]) - largest {
        0.0 => 1.0,
        below => (below / options.temperature).exp(),
    };
    let mut candidates: Vec<Candidate> = order
        .into_iter()
        .map(|token| Candidate {
            token,
            probability: weight(token),
        })
        .collect();
    keep_share(&mut candidates, options.top_p);
    let total: f64 = candidates.iter().map(|one| one.probability).sum();
    for candidate in &mut candidates {
        candidate.probability /= total;
    }
    Ok(candidates)
}

/// Checks that a token can be chosen by these logits.
pub(crate) fn check(logits: &[f32]) -> Result<(), SampleError> {
    let bad = |value: f32| value.is_nan() || value == f32::INFINITY;
    if let Some(token) = logits.iter().position(|&value| bad(value)) {
        let value = logits[token];
        return Err(SampleError::NotFinite { token, value });
    }
    match logits.iter().any(|&value| value > f32::NEG_INFINITY) {
        true => Ok(()),
        false => Err(SampleError::NoCandidate {
            tokens: logits.len(),
        }),
    }
}

/// Keeps the fewest first candidates that have the share `top_p` of all weight.
fn keep_share(candidates: &mut Vec<Candidate>, top_p: f64) {
    if top_p >= 1.0 {
        return;
    }
    let total: f64 = candidates.iter().map(|one| one.probability).sum();
    let mut sum = 0.0;
    let last = candidates.iter().position(|one| {
        sum += one.probability;
        sum >= top_p * total
    });
    candidates.truncate(last.map_or(candidates.len(), |last| last + 1));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(temperature: f64, top_k: Option<usize>, top_p: f64) -> SamplingOptions {
        SamplingOptions {
            temperature,
            top_k,
            top_p,
            seed: 0,
        }
    }

    /// Logits of these probabilities, times any factor.
    fn logits(weights: &[f64]) -> Vec<f32> {
        weights.iter().map(|weight| weight.ln() as f32).collect()
    }

    fn assert_candidates(found: Vec<Candidate>, expected: &[(usize, f64)]) {
        let tokens: Vec<usize> = found.iter().map(|one| one.token).collect();
        let expected_tokens: Vec<usize> = expected.iter().map(|one| one.0).collect();
        assert_eq!(tokens, expected_tokens);
        for (found, expected) in found.iter().zip(expected) {
            assert!((found.probability - expected.1).abs() < 1e-7, "{found:?}");
        }
    }

    #[test]
    fn probabilities_are_those_of_the_softmax() {
        let found = distribution(&logits(&[1.0, 4.0, 2.0, 3.0]), &options(1.0, None, 1.0));
        let expected = [(1, 0.4), (3, 0.3), (2, 0.2), (0, 0.1)];
        assert_candidates(found.unwrap(), &expected);
    }

    #[test]
    fn the_temperature_is_an_exponent() {
        let logits = logits(&[1.0, 3.0]);
        let of = |temperature| distribution(&logits, &options(temperature, None, 1.0)).unwrap();

        assert_candidates(of(0.5), &[(1, 0.9), (0, 0.1)]);
        let root = 3f64.sqrt();
        assert_candidates(
            of(2.0),
            &[(1, root / (1.0 + root)), (0, 1.0 / (1.0 + root))],
        );
        assert_candidates(of(1e300), &[(1, 0.5), (0, 0.5)]);
        assert_candidates(of(5e-324), &[(1, 1.0), (0, 0.0)]);
        assert_candidates(of(0.0), &[(1, 1.0)]);
    }

    #[test]
    fn top_k_takes_the_first_of_equal_tokens() {
        let logits = logits(&[2.0, 1.0, 2.0, 3.0, 2.0]);
        let of = |k| distribution(&logits, &options(1.0, Some(k), 1.0)).unwrap();

        assert_candidates(of(1), &[(3, 1.0)]);
        assert_candidates(of(2), &[(3, 0.6), (0, 0.4)]);
        let third = 2.0 / 7.0;
        assert_candidates(of(3), &[(3, 3.0 / 7.0), (0, third), (2, third)]);
        for k in [5, 6, usize::MAX] {
            assert_eq!(
                of(k),
                distribution(&logits, &options(1.0, None, 1.0)).unwrap()
            );
        }
    }

    #[test]
    fn top_p_takes_the_fewest_tokens_that_have_it() {
        // Powers of two, whose sums are exact.
        let logits = logits(&[0.125, 0.5, 0.125, 0.25]);
        let of = |p| distribution(&logits, &options(1.0, None, p)).unwrap();

        assert_candidates(of(f64::MIN_POSITIVE), &[(1, 1.0)]);
        assert_candidates(of(0.499), &[(1, 1.0)]);
        assert_candidates(of(0.51), &[(1, 2.0 / 3.0), (3, 1.0 / 3.0)]);
        assert_candidates(of(0.8), &[(1, 4.0 / 7.0), (3, 2.0 / 7.0), (0, 1.0 / 7.0)]);
        assert_eq!(of(1.0).len(), 4);
        assert_eq!(of(0.99).len(), 4);
    }

    #[test]
    fn top_p_counts_what_top_k_leaves() {
        let logits = logits(&[4.0, 3.0, 2.0, 1.0]);
        // 4/7 of the first two, but 0.4 of all.
        let found = distribution(&logits, &options(1.0, Some(2), 0.55)).unwrap();
        assert_candidates(found, &[(0, 1.0)]);
    }

    #[test]
    fn large_logits_do_not_overflow() {
        let found = distribution(&[1e38, -1e38, 1e38], &options(1.0, None, 1.0)).unwrap();
        assert_candidates(found, &[(0, 0.5), (2, 0.5), (1, 0.0)]);
    }

    #[test]
    fn impossible_tokens_are_no_candidates() {
        let low = f32::NEG_INFINITY;
        let found = distribution(&[low, 1.0, low, 1.0], &options(1.0, Some(3), 1.0)).unwrap();
        assert_candidates(found, &[(1, 0.5), (3, 0.5)]);
    }

    #[test]
    fn logits_without_meaning_are_named() {
        let of = |logits: &[f32]| {
            let greedy = distribution(logits, &options(0.0, None, 1.0)).unwrap_err();
            let random = distribution(logits, &options(1.0, None, 1.0)).unwrap_err();
            assert_eq!(greedy.to_string(), random.to_string());
            greedy.to_string()
        };
        assert!(of(&[0.0, f32::NAN]).starts_with("the model gives token 1 the logit NaN, "));
        assert!(of(&[f32::INFINITY, 0.0]).starts_with("the model gives token 0 the logit inf, "));
        assert_eq!(
            of(&[f32::NEG_INFINITY; 3]),
            "none of the 3 tokens has a probability above zero"
        );
        assert!(of(&[]).starts_with("none of the 0 tokens"));
    }
}
