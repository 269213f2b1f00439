//! Quotas of layers and of rows.

use super::Composed;
use super::base::is_young;
use crate::dst::scope::{lowest, lowest_per_row};
use crate::dst::{DstError, NetView, Plan, Quota, Quotas, Turnover, UpdateRandom};

impl Composed {
    pub(super) fn layer_plans(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        self.each(net, |index, layer| {
            let (scores, eligible) = self.scores(layer)?;
            let quotas = turnover.quotas(layer.pattern.nnz(), layer.pattern.size());
            let conserve = turnover.drop == turnover.grow;
            let drop = quotas.drop.min(eligible);
            let quota = match (&self.grow, conserve) {
                (None, _) => 0,
                (_, true) => drop,
                (_, false) => quotas.grow,
            };
            let mut rng = random.layer(index);
            let dropped = lowest(&scores, drop);
            let grown = self.grow(layer, &dropped, Quota::Layer(quota), &mut rng)?;
            let dropped = match conserve && grown.len() < quota {
                true => lowest(&scores, grown.len()),
                false => dropped,
            };
            self.finish(layer, &dropped, &grown, &mut rng)
        })
    }

    pub(super) fn row_plans(
        &self,
        net: &NetView<'_>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        self.each(net, |index, layer| {
            let (scores, _) = self.scores(layer)?;
            let offsets = layer.pattern.row_offsets();
            let width = layer.pattern.columns();
            let (mut drops, mut quotas) = (Vec::new(), Vec::new());
            for bounds in offsets.windows(2) {
                let row = &scores[bounds[0]..bounds[1]];
                let young = match self.grace {
                    0 => 0,
                    _ => row.iter().filter(|score| is_young(**score)).count(),
                };
                let Quotas { drop, grow } = turnover.quotas(row.len(), width as u64);
                let drop = drop.min(row.len() - young);
                let conserve = turnover.drop == turnover.grow;
                drops.push(drop);
                quotas.push(match (&self.grow, conserve) {
                    (None, _) => 0,
                    (_, true) => drop,
                    (_, false) => grow,
                });
            }
            let mut rng = random.layer(index);
            let mut dropped = lowest_per_row(&scores, layer.pattern, &drops);
            let grown = self.grow(layer, &dropped, Quota::Rows(&quotas), &mut rng)?;
            if turnover.drop == turnover.grow && grown.len() < drops.iter().sum() {
                let mut found = vec![0; drops.len()];
                let rows = grown.iter().map(|flat| (flat / width as u64) as usize);
                // What is out of range is refused below.
                rows.filter(|&row| row < drops.len())
                    .for_each(|row| found[row] += 1);
                dropped = lowest_per_row(&scores, layer.pattern, &found);
            }
            self.finish(layer, &dropped, &grown, &mut rng)
        })
    }
}
