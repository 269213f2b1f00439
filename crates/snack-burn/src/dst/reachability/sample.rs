use rand::Rng;

use super::Functional;
use crate::error::SparseError;
use crate::pattern::Pattern;

/// New coordinates of a layer, and how many of them came from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuidedSample {
    /// Increasing flat indices `row * k + col`.
    pub flats: Vec<u64>,
    /// How many were drawn where a connection is functional.
    pub functional: usize,
    /// How many, for want of such, where the inputs of the network reach it.
    pub forward: usize,
    /// How many anywhere.
    pub anywhere: usize,
}

impl Functional {
    /// Draws inactive coordinates of a layer, a share of them where a connection is functional.
    ///
    /// If those coordinates do not suffice, all of them are taken and the others come from where
    /// the inputs of the network reach, and then from anywhere. Within each of these, every subset
    /// is equally likely. Time and memory `O(m + k + nnz + count log count)`.
    ///
    /// # Arguments
    ///
    /// * `pattern` - the non-zeros, which are not drawn.
    /// * `count` - number of coordinates.
    /// * `guidance` - share that is guided, in `[0, 1]`; the others are drawn anywhere.
    /// * `forbidden` - increasing flat indices of further coordinates that must not be drawn.
    /// * `rng` - its state determines the draw.
    ///
    /// # Errors
    ///
    /// Those of [`Pattern::sample_inactive_except`].
    ///
    /// # Panics
    ///
    /// Panics if `guidance` is not in `[0, 1]` or the pattern has another shape.
    pub fn sample<R: Rng + ?Sized>(
        &self,
        pattern: &Pattern,
        count: usize,
        guidance: f64,
        forbidden: &[u64],
        rng: &mut R,
    ) -> Result<GuidedSample, SparseError> {
        self.check(pattern);
        assert!(
            (0.0..=1.0).contains(&guidance),
            "guidance must be in [0, 1], got {guidance}"
        );
        let inactive = pattern.size() - pattern.nnz() as u64;
        let available = inactive.saturating_sub(forbidden.len() as u64);
        if count as u64 > available {
            return Err(SparseError::NotEnoughInactive {
                asked: count,
                available,
            });
        }
        let guided = (guidance * count as f64).round() as usize;
        // The rows that lead to the outputs come first, then the others.
        let [functional, forward] = [self.outputs.clone(), self.outputs.complement()];
        let mut drawn = [0; 2];
        let mut flats = Vec::with_capacity(count);
        for (drawn, rows) in drawn.iter_mut().zip([functional, forward]) {
            if flats.len() == guided {
                break;
            }
            let rows = rows.iter().map(|row| row as u32).collect();
            let region = pattern.region(rows, self.inputs(), forbidden)?;
            let room = usize::try_from(region.available()).unwrap_or(usize::MAX);
            *drawn = room.min(guided - flats.len());
            flats.extend(region.sample(*drawn, rng)?);
        }
        let [functional, forward] = drawn;
        let anywhere = count - flats.len();
        if anywhere > 0 {
            let mut taken = [&flats, forbidden].concat();
            taken.sort_unstable();
            flats.extend(pattern.sample_inactive_except(anywhere, &taken, rng)?);
        }
        flats.sort_unstable();
        Ok(GuidedSample {
            flats,
            functional,
            forward,
            anywhere,
        })
    }
}
