//! The largest entries of a dense gradient outside a pattern, against a full sort on the host.

use burn::tensor::{DType, Device, Tensor};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;
use snack_burn::tensor::{Candidate, GradientFactors};

use crate::support::{Backend, backends, flex, tensor2, uniform};

/// Factors on the host.
struct Problem {
    shape: [usize; 2],
    batch: usize,
    g: Vec<f32>,
    x: Vec<f32>,
}

impl Problem {
    fn draw(shape: [usize; 2], batch: usize, mut draw: impl FnMut() -> f32) -> Self {
        let [m, k] = shape;
        Self {
            shape,
            batch,
            g: (0..batch * m).map(|_| draw()).collect(),
            x: (0..batch * k).map(|_| draw()).collect(),
        }
    }

    /// Small integers: all sums are exact, and ties are many.
    fn integers(shape: [usize; 2], batch: usize, rng: &mut ChaCha8Rng) -> Self {
        Self::draw(shape, batch, || rng.random_range(-2..=2) as f32)
    }

    fn factors(&self, device: &Device) -> GradientFactors {
        let [m, k] = self.shape;
        GradientFactors::new(
            tensor2(&self.g, [self.batch, m], device),
            tensor2(&self.x, [self.batch, k], device),
        )
    }

    fn gradient(&self, flat: u64) -> f64 {
        let [m, k] = self.shape;
        let (row, col) = ((flat / k as u64) as usize, (flat % k as u64) as usize);
        (0..self.batch)
            .map(|b| f64::from(self.g[b * m + row]) * f64::from(self.x[b * k + col]))
            .sum()
    }

    /// Everything outside the pattern, by score and flat index.
    fn ranked(&self, excluded: &Pattern) -> Vec<(u64, f64)> {
        let width = self.shape[1] as u64;
        let mut all: Vec<_> = (0..excluded.size())
            .filter(|flat| !excluded.contains((flat / width) as usize, (flat % width) as usize))
            .map(|flat| (flat, self.gradient(flat)))
            .collect();
        all.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
        all
    }
}

fn pairs(candidates: &[Candidate]) -> Vec<(u64, f64)> {
    candidates
        .iter()
        .map(|candidate| (candidate.flat, f64::from(candidate.gradient)))
        .collect()
}

/// Flat indices and bits: what has to agree where sums have one order.
fn bits(candidates: &[Candidate]) -> Vec<(u64, u32)> {
    candidates
        .iter()
        .map(|candidate| (candidate.flat, candidate.gradient.to_bits()))
        .collect()
}

/// The panels of several heights, some that cut rows, each scanned in both orders.
fn scans(factors: &GradientFactors) -> Vec<(String, GradientFactors)> {
    let [m, k] = factors.dims();
    let mut entries: Vec<_> = [1, 7, 64, m.max(1)].map(|rows| rows * k).to_vec();
    entries.extend(
        [1, 10, k / 2 + 1]
            .into_iter()
            .filter(|entries| m * k / entries < 80),
    );
    entries
        .into_iter()
        .flat_map(|entries| {
            let factors = factors.clone().with_scratch_bytes(entries * 4);
            [
                (format!("{entries} entries"), factors.clone()),
                (
                    format!("{entries} entries, reversed"),
                    factors.with_reversed_scan(),
                ),
            ]
        })
        .collect()
}

/// No, some and all coordinates excluded.
fn patterns(shape: [usize; 2], rng: &mut ChaCha8Rng) -> Vec<Pattern> {
    let size = shape[0] * shape[1];
    [0, size / 3, size - 1, size]
        .map(|nnz| Pattern::random(shape, nnz, rng).unwrap())
        .to_vec()
}

fn assert_top_k(name: &str, problem: &Problem, factors: &GradientFactors, excluded: &Pattern) {
    let ranked = problem.ranked(excluded);
    for count in [0, 1, ranked.len() / 3, ranked.len()] {
        if count <= ranked.len() {
            let found = factors.top_k(excluded, count).unwrap();
            assert_eq!(
                pairs(&found),
                ranked[..count],
                "{name}: {count} of {:?} without {}",
                problem.shape,
                excluded.nnz()
            );
        }
    }
}

#[test]
fn ties_go_to_the_lower_index_whatever_the_panels() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let shapes = [[1, 1], [1, 70], [70, 1], [9, 33], [70, 64]];
    for (shape, batch) in shapes.into_iter().zip([1, 3, 40, 7, 2]) {
        let problem = Problem::integers(shape, batch, &mut rng);
        let patterns = patterns(shape, &mut rng);
        for backend in backends() {
            let factors = problem.factors(&backend.device);
            for (scan, factors) in scans(&factors) {
                let name = format!("{} in panels of {scan}", backend.name);
                for excluded in &patterns {
                    assert_top_k(&name, &problem, &factors, excluded);
                }
            }
        }
    }
}

#[test]
fn several_tiles_of_many_samples() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for shape in [[130, 200], [67, 131]] {
        let problem = Problem::integers(shape, 300, &mut rng);
        let excluded = Pattern::random(shape, 2000, &mut rng).unwrap();
        for backend in backends() {
            let factors = problem.factors(&backend.device);
            assert_top_k(backend.name, &problem, &factors, &excluded);
        }
    }
}

#[test]
fn all_scores_equal() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let shape = [40, 100];
    let excluded = Pattern::random(shape, 500, &mut rng).unwrap();
    for value in [0.0, -1.0] {
        let problem = Problem::draw(shape, 4, || value);
        for backend in backends() {
            for (scan, factors) in scans(&problem.factors(&backend.device)) {
                let name = format!("{} in panels of {scan}", backend.name);
                assert_top_k(&name, &problem, &factors, &excluded);
            }
        }
    }
}

/// Real numbers: scores within the tolerance of f64, and one order of the sums for all panels.
#[test]
fn real_numbers_do_not_depend_on_the_panels() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    for (shape, batch) in [([70, 150], 64), ([33, 64], 1000)] {
        let [m, k] = shape;
        let mut problem = Problem::draw(shape, batch, || 0.0);
        problem.g = uniform(batch * m, &mut rng);
        problem.x = uniform(batch * k, &mut rng);
        let excluded = Pattern::random(shape, m * k / 5, &mut rng).unwrap();
        let count = m * k / 4;
        let ranked = problem.ranked(&excluded);
        let tolerance = 1e-6 * ranked[0].1.abs() * (batch as f64).sqrt();
        for backend in backends() {
            let factors = problem.factors(&backend.device);
            let found = factors.top_k(&excluded, count).unwrap();
            assert!(
                found.is_sorted_by(|a, b| a.rank(b).is_lt()),
                "{}",
                backend.name
            );
            for (candidate, (_, expected)) in found.iter().zip(&ranked) {
                let exact = problem.gradient(candidate.flat);
                let [gradient, score] = [candidate.gradient, candidate.score()].map(f64::from);
                assert!((gradient - exact).abs() < tolerance, "{}", backend.name);
                assert!(
                    (score - expected.abs()).abs() < tolerance,
                    "{}",
                    backend.name
                );
            }
            for (scan, factors) in scans(&factors) {
                let again = factors.top_k(&excluded, count).unwrap();
                assert_eq!(bits(&again), bits(&found), "{}: {scan}", backend.name);
            }
        }
    }
}

#[test]
fn quotas_of_rows() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for shape in [[1, 1], [1, 300], [9, 33], [70, 64]] {
        let [m, k] = shape;
        let problem = Problem::integers(shape, 3, &mut rng);
        let excluded = Pattern::random(shape, m * k / 3, &mut rng).unwrap();
        let ranked = problem.ranked(&excluded);
        let fits = |row: usize| k - excluded.row(row).len();
        let mut quotas: Vec<_> = (0..m).map(|row| rng.random_range(0..=fits(row))).collect();
        quotas[0] = fits(0);
        let mut expected = Vec::new();
        for (row, &quota) in quotas.iter().enumerate() {
            let of_row = ranked
                .iter()
                .filter(|(flat, _)| flat / k as u64 == row as u64);
            expected.extend(of_row.take(quota).copied());
        }
        for backend in backends() {
            for (scan, factors) in scans(&problem.factors(&backend.device)) {
                let name = format!("{} in panels of {scan}", backend.name);
                let found = factors.top_k_per_row(&excluded, &quotas).unwrap();
                assert_eq!(pairs(&found), expected, "{name}");
                let none = factors.top_k_per_row(&excluded, &vec![0; m]).unwrap();
                assert!(none.is_empty(), "{name}");
            }
        }
    }
}

#[test]
fn half_precision_is_summed_in_full() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let shape = [20, 36];
    // Sums up to 40 000, which half precision does not hold exactly.
    let problem = Problem::draw(shape, 400, || rng.random_range(-10..=10) as f32);
    let excluded = Pattern::random(shape, 100, &mut rng).unwrap();
    for backend in backends() {
        for dtype in [DType::F16, DType::BF16] {
            if !backend.supports(dtype) {
                continue;
            }
            let [g, x] = [(&problem.g, 20), (&problem.x, 36)]
                .map(|(values, width)| tensor2(values, [400, width], &backend.device).cast(dtype));
            let name = format!("{} {dtype:?}", backend.name);
            let factors = GradientFactors::new(g, x);
            assert_top_k(&name, &problem, &factors, &excluded);
            let flats: Vec<_> = excluded.flats().collect();
            let expected: Vec<_> = flats.iter().map(|&flat| problem.gradient(flat)).collect();
            let found = factors.gradients(&flats).unwrap();
            assert!(found.into_iter().map(f64::from).eq(expected), "{name}");
        }
    }
}

#[test]
fn an_empty_batch_or_an_empty_axis() {
    for backend in backends() {
        let problem = Problem::draw([5, 7], 0, || 1.0);
        let excluded = Pattern::from_sorted_flats([5, 7], [0, 2, 34]).unwrap();
        let factors = problem.factors(&backend.device);
        assert_top_k(backend.name, &problem, &factors, &excluded);
        let found = factors.top_k_per_row(&excluded, &[2, 0, 0, 0, 6]).unwrap();
        let flats: Vec<_> = found.iter().map(|candidate| candidate.flat).collect();
        assert_eq!(flats, [1, 3, 28, 29, 30, 31, 32, 33]);
        assert_eq!(factors.gradients(&[3, 4]).unwrap(), [0.0, 0.0]);
        assert_eq!(factors.marginals(), (vec![0.0; 5], vec![0.0; 7]));
        assert_eq!(factors.sketch(&[]).unwrap(), (vec![0.0; 5], vec![0.0; 7]));
        for shape in [[0, 7], [5, 0], [0, 0]] {
            let problem = Problem::draw(shape, 3, || 1.0);
            let factors = problem.factors(&backend.device);
            let empty = Pattern::empty(shape).unwrap();
            assert!(factors.top_k(&empty, 0).unwrap().is_empty());
            let quotas = vec![0; shape[0]];
            assert!(factors.top_k_per_row(&empty, &quotas).unwrap().is_empty());
            assert!(factors.top_k(&empty, 1).is_err());
            assert_eq!(
                factors.marginals(),
                (vec![3.0; shape[0]], vec![3.0; shape[1]])
            );
        }
    }
}

#[test]
fn what_is_asked_in_vain_is_refused() {
    for backend in backends() {
        let problem = Problem::draw([2, 3], 1, || 1.0);
        let factors = problem.factors(&backend.device);
        let excluded = Pattern::from_sorted_flats([2, 3], [1, 2]).unwrap();
        assert_eq!(
            factors.top_k(&excluded, 5),
            Err(SparseError::NotEnoughInactive {
                asked: 5,
                available: 4
            })
        );
        assert_eq!(
            factors.top_k_per_row(&excluded, &[2, 1]),
            Err(SparseError::NotEnoughInactiveInRow {
                row: 0,
                asked: 2,
                available: 1
            })
        );
        assert!(matches!(
            factors.top_k_per_row(&excluded, &[0]),
            Err(SparseError::LengthMismatch { .. })
        ));
        assert!(matches!(
            factors.top_k(&Pattern::empty([3, 2]).unwrap(), 0),
            Err(SparseError::ShapeMismatch { .. })
        ));
        assert!(matches!(
            factors.sketch(&[1.0, 1.0]),
            Err(SparseError::LengthMismatch { .. })
        ));
        assert!(factors.gradients(&[6]).is_err());
        assert!(factors.gradients(&[2, 1]).is_err());
    }
}

/// A gradient that is not finite is found wherever it is, unless it is excluded.
#[test]
fn what_is_not_finite_is_reported() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let shape = [9, 40];
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        let mut problem = Problem::integers(shape, 2, &mut rng);
        problem.g.fill(1.0);
        problem.g[9 + 4] = bad;
        problem.x.fill(0.5);
        problem.x[40 + 33] = 4.0;
        // NaN and infinities spread over row 4; the product of MAX and 4 overflows in one place.
        let row_4: Vec<u64> = (160..200).collect();
        let outside = Pattern::from_sorted_flats(shape, row_4).unwrap();
        let inside = Pattern::empty(shape).unwrap();
        for backend in backends() {
            for (scan, factors) in scans(&problem.factors(&backend.device)) {
                let name = format!("{bad} on {} in panels of {scan}", backend.name);
                match factors.top_k(&inside, 1) {
                    Err(SparseError::NonFiniteGradient { row, col, gradient }) => {
                        assert_eq!(row, 4, "{name}");
                        assert!(!gradient.is_finite(), "{name}");
                        assert!(bad != f32::MAX || col == 33, "{name}: column {col}");
                    }
                    other => panic!("{name}: {other:?}"),
                }
                let quotas = [0, 0, 0, 0, 1, 0, 0, 0, 0];
                let error = factors.top_k_per_row(&inside, &quotas).unwrap_err();
                assert!(
                    matches!(error, SparseError::NonFiniteGradient { row: 4, .. }),
                    "{name}: {error:?}"
                );
                let quotas = [1, 1, 1, 1, 0, 1, 1, 1, 1];
                assert_eq!(factors.top_k_per_row(&inside, &quotas).unwrap().len(), 8);
                assert_top_k(&name, &problem, &factors, &outside);
                assert!(factors.top_k(&inside, 0).unwrap().is_empty(), "{name}");
            }
        }
    }
}

#[test]
fn sums_of_the_factors() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let problem = Problem::integers([5, 40], 33, &mut rng);
    let signs: Vec<f32> = (0..33)
        .map(|_| if rng.random_bool(0.5) { 1.0 } else { -1.0 })
        .collect();
    let sums = |values: &[f32], width: usize, term: &dyn Fn(usize, f32) -> f32| -> Vec<f32> {
        (0..width)
            .map(|col| (0..33).map(|b| term(b, values[b * width + col])).sum())
            .collect()
    };
    for backend in backends() {
        let factors = problem.factors(&backend.device);
        let expected = |term: &dyn Fn(usize, f32) -> f32| {
            (sums(&problem.g, 5, term), sums(&problem.x, 40, term))
        };
        assert_eq!(
            factors.marginals(),
            expected(&|_, value| value.abs()),
            "{}",
            backend.name
        );
        assert_eq!(
            factors.sketch(&signs).unwrap(),
            expected(&|b, value| signs[b] * value),
            "{}",
            backend.name
        );
        let flats = [0, 39, 40, 77, 199];
        assert_eq!(
            factors.gradients(&flats).unwrap(),
            flats.map(|flat| problem.gradient(flat) as f32),
            "{}",
            backend.name
        );
    }
}

/// Tracked factors, and those that are views of other tensors.
#[test]
fn tracked_and_strided_factors() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let problem = Problem::integers([12, 20], 6, &mut rng);
    let excluded = Pattern::random([12, 20], 50, &mut rng).unwrap();
    let strided = |backend: &Backend, tracked: bool| {
        let device = match tracked {
            true => backend.autodiff(),
            false => backend.device.clone(),
        };
        let transposed = |values: &[f32], width: usize| -> Tensor<2> {
            let turned: Vec<f32> = (0..width)
                .flat_map(|col| (0..6).map(move |b| values[b * width + col]))
                .collect();
            let tensor = tensor2(&turned, [width, 6], &device);
            let tensor = if tracked {
                tensor.require_grad()
            } else {
                tensor
            };
            tensor.transpose()
        };
        GradientFactors::new(transposed(&problem.g, 12), transposed(&problem.x, 20))
    };
    for backend in backends() {
        for tracked in [false, true] {
            let name = format!("{}, tracked: {tracked}", backend.name);
            assert_top_k(&name, &problem, &strided(&backend, tracked), &excluded);
        }
    }
}

/// Flat indices beyond 32 bits: rows at both ends of a matrix of more than 2^32 coordinates.
#[test]
fn more_than_four_billion_coordinates() {
    let size = 65_537;
    let mut rng = ChaCha8Rng::seed_from_u64(10);
    let problem = Problem::draw([size; 2], 1, || rng.random_range(-1.0..1.0));
    let last = size as u64 * size as u64 - 1;
    let excluded = Pattern::from_sorted_flats([size; 2], [0, last]).unwrap();
    let mut quotas = vec![0; size];
    (quotas[0], quotas[size - 1]) = (3, 5);
    let mut expected = Vec::new();
    for (row, quota) in [(0, 3), (size - 1, 5)] {
        let flats = (0..size as u64).map(|col| row as u64 * size as u64 + col);
        let mut of_row: Vec<_> = flats
            .filter(|&flat| flat != 0 && flat != last)
            .map(|flat| (flat, problem.gradient(flat) as f32))
            .collect();
        of_row.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
        expected.extend(
            of_row[..quota]
                .iter()
                .map(|&(flat, value)| (flat, value.to_bits())),
        );
    }
    assert!(expected[7].0 > u64::from(u32::MAX));
    for backend in backends() {
        let factors = problem
            .factors(&backend.device)
            .with_scratch_bytes(4 * size);
        let found = factors.top_k_per_row(&excluded, &quotas).unwrap();
        assert_eq!(bits(&found), expected, "{}", backend.name);
    }
}

#[test]
fn factors_that_do_not_belong_together() {
    let Some(backend) = flex() else { return };
    let device = backend.device;
    let attempt = |g: Tensor<2>, x: Tensor<2>| {
        let attempt = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            GradientFactors::new(g, x);
        }));
        crate::support::panic_text(attempt.unwrap_err())
    };
    let text = attempt(Tensor::ones([2, 3], &device), Tensor::ones([4, 3], &device));
    assert!(
        text.contains("the same batch (axis 0), got 2 and 4"),
        "{text}"
    );
    let half = Tensor::<2>::ones([2, 3], &device).cast(DType::F16);
    let text = attempt(half, Tensor::ones([2, 3], &device));
    assert!(text.contains("the same data type"), "{text}");
}
