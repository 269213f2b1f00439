use rand::{Rng, RngExt};

use super::{Grow, Quota, Request, Uniform, free_in_row};
use crate::dst::{DstError, LayerView, Signals};
use crate::pattern::Pattern;

/// Coordinates that have never been active, with equal probability, and others once those are used
/// up (an option of ITOP; Liu et al., 2021).
///
/// A rectangle to stay within and quotas per row are respected at the price of drawing among all
/// coordinates of the layer, or of each row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unfired;

impl Grow for Unfired {
    fn needs(&self) -> Signals {
        Signals::HISTORY
    }

    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        let history = layer.history()?;
        let taken = request.taken;
        let cols = taken.columns() as u64;
        let mut chosen = match (request.quota, request.within) {
            (Quota::Layer(count), None) => {
                let unexplored = usize::try_from(history.unexplored()).unwrap_or(usize::MAX);
                history.sample_unexplored(count.min(unexplored), rng)?
            }
            (Quota::Layer(count), Some(within)) => {
                let all = within.rows.iter().flat_map(|&row| {
                    let start = u64::from(row) * cols;
                    within.cols.iter().map(move |&col| start + u64::from(col))
                });
                choose(all.filter(|&flat| !history.contains(flat)), count, rng)
            }
            (Quota::Rows(quotas), _) => {
                let mut chosen = Vec::new();
                for (row, &quota) in (0u64..).zip(quotas).filter(|(_, quota)| **quota > 0) {
                    let row = row * cols..(row + 1) * cols;
                    chosen.extend(choose(
                        row.filter(|&flat| !history.contains(flat)),
                        quota,
                        rng,
                    ));
                }
                chosen
            }
        };
        // What is taken has been active, so the two never overlap.
        chosen.sort_unstable();
        if chosen.len() < request.quota.total() {
            let with_chosen = taken.union(&Pattern::from_sorted_flats(
                taken.shape(),
                chosen.iter().copied(),
            )?)?;
            let missing: Vec<usize>;
            let quota = match request.quota {
                Quota::Layer(count) => Quota::Layer(count - chosen.len()),
                Quota::Rows(quotas) => {
                    let found = |row: usize| with_chosen.row(row).len() - taken.row(row).len();
                    missing = (0..)
                        .zip(quotas)
                        .map(|(row, &quota)| {
                            (quota - found(row)).min(free_in_row(&with_chosen, row))
                        })
                        .collect();
                    Quota::Rows(&missing)
                }
            };
            let rest = Request {
                quota,
                taken: &with_chosen,
                within: request.within,
            };
            chosen.extend(Uniform.propose(layer, &rest, rng)?);
            chosen.sort_unstable();
        }
        Ok(chosen)
    }
}

/// Up to `count` members of a stream, every subset equally likely (reservoir sampling).
fn choose(all: impl Iterator<Item = u64>, count: usize, rng: &mut dyn Rng) -> Vec<u64> {
    let mut chosen = Vec::with_capacity(count.min(1024));
    if count == 0 {
        return chosen;
    }
    for (seen, flat) in all.enumerate() {
        if chosen.len() < count {
            chosen.push(flat);
        } else {
            let place = rng.random_range(0..=seen);
            if place < count {
                chosen[place] = flat;
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::{History, Rectangle};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn never_active_first_then_the_others() {
        let mut rng = ChaCha8Rng::seed_from_u64(4);
        let pattern = Pattern::from_sorted_flats([2, 4], [0, 5]).unwrap();
        let earlier = Pattern::from_sorted_flats([2, 4], [1, 2, 6]).unwrap();
        let mut history = History::new(&earlier);
        history.record(&pattern).unwrap();
        let mut layer = LayerView::new("", &pattern, &[1.0; 2]);
        layer.history = Some(&history);
        let mut propose = |quota, within| {
            let request = Request {
                within,
                ..Request::new(quota, &pattern)
            };
            Unfired.propose(&layer, &request, &mut rng).unwrap()
        };
        assert_eq!(propose(Quota::Layer(3), None), [3, 4, 7]);
        assert_eq!(propose(Quota::Layer(6), None), [1, 2, 3, 4, 6, 7]);
        assert_eq!(propose(Quota::Layer(99), None), [1, 2, 3, 4, 6, 7]);
        let four = propose(Quota::Layer(4), None);
        assert!([3, 4, 7].iter().all(|flat| four.contains(flat)) && four.len() == 4);
        assert_eq!(propose(Quota::Rows(&[1, 2]), None), [3, 4, 7]);
        assert_eq!(propose(Quota::Rows(&[9, 1]), None)[..3], [1, 2, 3]);
        let within = Rectangle {
            rows: vec![0],
            cols: vec![1, 3],
        };
        assert_eq!(propose(Quota::Layer(1), Some(&within)), [3]);
        assert_eq!(propose(Quota::Layer(5), Some(&within)), [1, 3]);
    }
}
