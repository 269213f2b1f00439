//! A batch in tiles of lanes: feature-major, so that a non-zero meets one vector of samples.

use core::ops::Deref;

use pulp::{Arch, Simd, WithSimd};

use super::real::Real;
use super::scratch::Scratch;
use super::split::for_each;

/// The most samples in a tile. Wider tiles read the matrix less often but outgrow the cache of a
/// core: 32 lanes of 4096 features take 512 KiB.
pub(super) const TILE: usize = 32;

/// Features moved together; 16 `f32` are one cache line.
pub(super) const BLOCK: usize = 16;

/// Fewer numbers than this are laid out by the calling thread.
const SERIAL_BELOW: usize = 1 << 16;

/// The lanes of a tile that holds `samples` samples.
fn width(samples: usize) -> usize {
    samples.next_power_of_two().min(TILE)
}

/// A batch in tiles.
pub(super) enum Lanes<'a, T> {
    /// A single sample is its own tile.
    Sample(&'a [T]),
    Tiles(Scratch<T>),
}

impl<T> Deref for Lanes<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Sample(x) => x,
            Self::Tiles(tiles) => tiles,
        }
    }
}

/// The batch-major `x`, `[batch, features]`, as tiles of [`TILE`] samples one after the other,
/// each `[features, width]`. The last tile may be narrower; lanes without a sample are zero.
pub(super) fn feature_major<T: Real>(x: &[T], features: usize, threads: usize) -> Lanes<'_, T> {
    if x.len() <= features {
        return Lanes::Sample(x);
    }
    let threads = match x.len() < SERIAL_BELOW {
        true => 1,
        false => threads,
    };
    let batch = x.len() / features;
    let last = match batch % TILE {
        0 => 0,
        samples => width(samples),
    };
    let mut lanes = Scratch::zeros((batch - batch % TILE + last) * features);
    let share = features.div_ceil(threads).next_multiple_of(BLOCK);
    let mut jobs = Vec::new();
    for (x, lanes) in tiles(x, features).zip(lanes.chunks_mut(TILE * features)) {
        let width = lanes.len() / features;
        for (part, lanes) in lanes.chunks_mut(share * width).enumerate() {
            let first = part * share;
            jobs.push((
                Fill {
                    x,
                    features,
                    first,
                    lanes,
                },
                width,
            ));
        }
    }
    for_each(jobs, threads, |(fill, width)| launch(fill, width));
    Lanes::Tiles(lanes)
}

/// The tiles of a batch, batch-major or feature-major.
pub(super) fn tiles<T>(x: &[T], features: usize) -> impl Iterator<Item = &[T]> {
    x.chunks(TILE * features)
}

/// Features `first ..` of one tile.
struct Fill<'a, T> {
    x: &'a [T],
    features: usize,
    first: usize,
    lanes: &'a mut [T],
}

impl<T: Real> Kernel for Fill<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const W: usize>(self) {
        let (lanes, _) = self.lanes.as_chunks_mut::<W>();
        for (block, lanes) in lanes.chunks_mut(BLOCK).enumerate() {
            let start = self.first + block * BLOCK;
            for (lane, sample) in self.x.chunks_exact(self.features).enumerate() {
                for (lanes, &value) in lanes.iter_mut().zip(&sample[start..]) {
                    lanes[lane] = value;
                }
            }
        }
    }
}

/// Writes vectors of lanes into the columns `first ..` of their samples; lanes without a sample
/// are dropped.
#[inline(always)]
pub(super) fn write_block<T: Real, const W: usize>(
    block: &[[T; W]],
    samples: &mut [&mut [T]],
    first: usize,
) {
    for (lane, sample) in samples.iter_mut().enumerate() {
        for (value, lanes) in sample[first..].iter_mut().zip(block) {
            *value = lanes[lane];
        }
    }
}

/// Work on one tile, compiled for each number of lanes and instruction set.
pub(super) trait Kernel {
    fn run<S: Simd, const W: usize>(self);
}

/// Runs a kernel for a tile of `width` lanes with the widest instructions of the machine.
pub(super) fn launch(kernel: impl Kernel, width: usize) {
    let arch = Arch::new();
    match width {
        1 => arch.dispatch(Wide::<_, 1>(kernel)),
        2 => arch.dispatch(Wide::<_, 2>(kernel)),
        4 => arch.dispatch(Wide::<_, 4>(kernel)),
        8 => arch.dispatch(Wide::<_, 8>(kernel)),
        16 => arch.dispatch(Wide::<_, 16>(kernel)),
        TILE => arch.dispatch(Wide::<_, TILE>(kernel)),
        other => unreachable!("no tile has {other} lanes"),
    }
}

struct Wide<K, const W: usize>(K);

impl<K: Kernel, const W: usize> WithSimd for Wide<K, W> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        self.0.run::<S, W>();
    }
}

#[cfg(test)]
mod tests {
    use super::super::split;
    use super::*;

    #[test]
    fn there_and_back() {
        let features = 37;
        for batch in [0, 1, 2, 3, 5, 16, 17, 31, 32, 33, 71] {
            for threads in [1, 3, 100] {
                let x: Vec<f32> = (0..batch * features).map(|i| 1.0 + i as f32).collect();
                let lanes = feature_major(&x, features, threads);
                let mut found = vec![f32::NAN; x.len()];
                for (lanes, found) in tiles(&lanes, features).zip(found.chunks_mut(TILE * features))
                {
                    launch(
                        Back {
                            lanes,
                            found,
                            features,
                        },
                        lanes.len() / features,
                    );
                }
                assert_eq!(x, found, "batch {batch}, {threads} threads");
            }
        }
    }

    struct Back<'a> {
        lanes: &'a [f32],
        found: &'a mut [f32],
        features: usize,
    }

    impl Kernel for Back<'_> {
        fn run<S: Simd, const W: usize>(self) {
            let (lanes, rest) = self.lanes.as_chunks::<W>();
            assert!(rest.is_empty());
            let ranges = split::evenly(self.features, 2);
            for (range, mut samples) in
                ranges
                    .iter()
                    .zip(split::columns(self.found, self.features, &ranges))
            {
                for lanes in lanes {
                    assert!(lanes[samples.len()..].iter().all(|&lane| lane == 0.0));
                }
                write_block(&lanes[range.clone()], &mut samples, 0);
            }
        }
    }
}
