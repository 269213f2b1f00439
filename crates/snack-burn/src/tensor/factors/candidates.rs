//! Candidates and their order.

use core::cmp::Ordering;

use rayon::slice::ParallelSliceMut;

/// Fewer candidates are sorted by the calling thread.
const SERIAL_BELOW: usize = 1 << 14;

/// A coordinate and the gradient that its weight would have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The flat index `row * k + col`.
    pub flat: u64,
    /// The signed gradient.
    pub gradient: f32,
}

impl Candidate {
    /// The magnitude of the gradient.
    pub fn score(&self) -> f32 {
        self.gradient.abs()
    }

    /// The larger score first, then the lower flat index.
    pub fn rank(&self, other: &Self) -> Ordering {
        let scores = other.score().total_cmp(&self.score());
        scores.then(self.flat.cmp(&other.flat))
    }
}

/// The best candidates so far, at most `count` of them.
pub(super) struct Best {
    count: usize,
    candidates: Vec<Candidate>,
}

impl Best {
    pub fn new(count: usize) -> Self {
        Self {
            count,
            candidates: Vec::new(),
        }
    }

    pub fn extend(&mut self, more: Vec<Candidate>) {
        match self.candidates.is_empty() {
            true => self.candidates = more,
            false => self.candidates.extend(more),
        }
        if self.candidates.len() > self.count {
            let last = self.count.saturating_sub(1);
            self.candidates
                .select_nth_unstable_by(last, Candidate::rank);
            self.candidates.truncate(self.count);
        }
    }

    /// The score below which nothing can enter any more.
    pub fn floor(&self) -> f32 {
        match self.candidates.len() < self.count {
            true => 0.0,
            false => self
                .candidates
                .iter()
                .map(Candidate::score)
                .fold(f32::INFINITY, f32::min),
        }
    }

    pub fn unsorted(self) -> Vec<Candidate> {
        self.candidates
    }

    pub fn sorted(mut self) -> Vec<Candidate> {
        match self.candidates.len() < SERIAL_BELOW {
            true => self.candidates.sort_unstable_by(Candidate::rank),
            false => self.candidates.par_sort_unstable_by(Candidate::rank),
        }
        self.candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_best_by_score_then_flat() {
        let candidate = |flat, gradient| Candidate { flat, gradient };
        let mut best = Best::new(3);
        assert_eq!(best.floor(), 0.0);
        best.extend(vec![candidate(7, 1.0), candidate(9, -2.0)]);
        assert_eq!(best.floor(), 0.0);
        best.extend(vec![
            candidate(3, -1.0),
            candidate(1 << 40, 5.0),
            candidate(4, 1.0),
        ]);
        assert_eq!(best.floor(), 1.0);
        assert_eq!(
            best.sorted(),
            [
                candidate(1 << 40, 5.0),
                candidate(9, -2.0),
                candidate(3, -1.0)
            ]
        );
        let mut none = Best::new(0);
        none.extend(vec![candidate(0, 1.0)]);
        assert!(none.sorted().is_empty());
    }
}
