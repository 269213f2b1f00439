//! Batch-major to feature-major and back, in blocks that stay in the first-level cache.

use super::spmm::Real;

/// Columns moved together; 16 `f32` are one cache line.
const BLOCK: usize = 16;

/// Writes `x`, `width` rows at most of `features` numbers, as `features` rows of `width` numbers.
/// Rows that `x` lacks become zero.
pub(super) fn to_feature_major<T: Real>(x: &[T], features: usize, width: usize, out: &mut [T]) {
    debug_assert_eq!(out.len(), features * width);
    if features == 0 {
        return;
    }
    let filled = x.len() / features;
    if filled < width {
        out.fill(T::ZERO);
    }
    for start in (0..features).step_by(BLOCK) {
        let end = (start + BLOCK).min(features);
        for (lane, row) in x.chunks_exact(features).enumerate() {
            for (feature, &value) in (start..end).zip(&row[start..end]) {
                out[feature * width + lane] = value;
            }
        }
    }
}

/// Writes a block of `rows` feature-major vectors of `width` lanes into columns
/// `first .. first + rows` of the batch-major `y`, whose rows have `features` numbers. Lanes
/// beyond the rows of `y` are dropped.
pub(super) fn to_batch_major<T: Real>(
    block: &[T],
    width: usize,
    y: &mut [T],
    features: usize,
    first: usize,
) {
    let rows = block.len() / width;
    for (lane, row) in y.chunks_exact_mut(features).enumerate() {
        for (index, value) in row[first..first + rows].iter_mut().enumerate() {
            *value = block[index * width + lane];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let (batch, features, width) = (3, 37, 4);
        let x: Vec<f32> = (0..batch * features).map(|i| i as f32).collect();
        let mut transposed = vec![f32::NAN; features * width];
        to_feature_major(&x, features, width, &mut transposed);
        assert!((0..features).all(|f| transposed[f * width + 3] == 0.0));

        let mut y = vec![f32::NAN; batch * features];
        let (head, tail) = transposed.split_at(20 * width);
        to_batch_major(head, width, &mut y, features, 0);
        to_batch_major(tail, width, &mut y, features, 20);
        assert_eq!(x, y);
    }
}
