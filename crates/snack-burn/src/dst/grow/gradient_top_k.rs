use rand::Rng;

use super::{Grow, Quota, Request, flats_of, free_in_row};
use crate::dst::{DstError, GradientSource, LayerView, Signals};
use crate::tensor::Candidate;

/// The coordinates where the dense gradient is largest in magnitude (RigL; Evci et al., 2020),
/// exactly; equal magnitudes by lower flat index.
///
/// The gradient is scanned in panels out of its factors, so that memory stays bounded; the work is
/// `2 m k batch` per update against about `6 nnz batch` per training step. Below a density of about
/// 1 % that outweighs training at usual intervals: use [`Sampled`](super::Sampled) there.
#[derive(Debug, Clone, Copy, Default)]
pub struct GradientTopK;

impl Grow for GradientTopK {
    fn needs(&self) -> Signals {
        Signals::FACTORS
    }

    fn propose(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Vec<u64>, DstError> {
        Ok(flats_of(
            &best(layer, request, false)?,
            layer.pattern.size(),
        ))
    }

    fn ranked(
        &self,
        layer: &LayerView<'_>,
        request: &Request<'_>,
        _rng: &mut dyn Rng,
    ) -> Result<Option<Vec<Candidate>>, DstError> {
        Ok(Some(best(layer, request, true)?))
    }
}

fn best(
    layer: &LayerView<'_>,
    request: &Request<'_>,
    sorted: bool,
) -> Result<Vec<Candidate>, DstError> {
    let source = layer.factors()?;
    let inside;
    let source = match request.within {
        Some(within) => {
            let [rows, cols] = source.shape();
            inside = source.within(&flags(&within.rows, rows), &flags(&within.cols, cols));
            &*inside as &dyn GradientSource
        }
        None => source,
    };
    let taken = request.taken;
    let mut found = match request.quota {
        Quota::Layer(count) => {
            let free = taken.size() - taken.nnz() as u64;
            let count = count.min(usize::try_from(free).unwrap_or(usize::MAX));
            match sorted {
                true => source.top_k(taken, count)?,
                false => source.top_k_unsorted(taken, count)?,
            }
        }
        Quota::Rows(quotas) => {
            let quotas: Vec<usize> = (0..)
                .zip(quotas)
                .map(|(row, &quota)| quota.min(free_in_row(taken, row)))
                .collect();
            source.top_k_per_row(taken, &quotas)?
        }
    };
    if let Some(within) = request.within {
        // Zeros of the restricted gradient fill up a list that has too few of the others.
        let cols = source.shape()[1] as u64;
        found.retain(|candidate| {
            let at = [candidate.flat / cols, candidate.flat % cols].map(|index| index as u32);
            within.rows.binary_search(&at[0]).is_ok() && within.cols.binary_search(&at[1]).is_ok()
        });
    }
    Ok(found)
}

fn flags(chosen: &[u32], size: usize) -> Vec<bool> {
    let mut flags = vec![false; size];
    chosen
        .iter()
        .for_each(|&index| flags[index as usize] = true);
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::{HostFactors, Rectangle};
    use crate::pattern::Pattern;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn takes_the_largest_gradients_of_what_is_allowed() {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        // g x^T = [[3, 6, 9], [-4, -8, -12]]
        let factors = HostFactors::new([2, 3], 1, vec![3.0, -4.0], vec![1.0, 2.0, 3.0]);
        let pattern = Pattern::from_sorted_flats([2, 3], [5]).unwrap();
        let mut layer = LayerView::new("", &pattern, &[1.0]);
        let request = Request::new(Quota::Layer(2), &pattern);
        assert!(GradientTopK.propose(&layer, &request, &mut rng).is_err());
        layer.factors = Some(&factors);
        let found = GradientTopK.propose(&layer, &request, &mut rng).unwrap();
        assert_eq!(found, [2, 4]);
        let ranked = GradientTopK.ranked(&layer, &request, &mut rng).unwrap();
        let flats: Vec<u64> = ranked.unwrap().iter().map(|c| c.flat).collect();
        assert_eq!(flats, [2, 4]);

        let request = Request::new(Quota::Rows(&[1, 2]), &pattern);
        let found = GradientTopK.propose(&layer, &request, &mut rng).unwrap();
        assert_eq!(found, [2, 3, 4]);

        let within = Rectangle {
            rows: vec![0, 1],
            cols: vec![0],
        };
        let request = Request {
            within: Some(&within),
            ..Request::new(Quota::Layer(5), &pattern)
        };
        let found = GradientTopK.propose(&layer, &request, &mut rng).unwrap();
        assert_eq!(found, [0, 3]);
    }
}
