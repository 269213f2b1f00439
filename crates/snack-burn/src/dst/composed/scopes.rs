//! Quotas of layers and of rows.

use super::Composed;
use super::base::{Asked, Grown, Places, is_young};
use crate::dst::scope::{lowest, lowest_per_row};
use crate::dst::{DstError, LayerView, NetView, Plan, Quotas, Turnover, UpdateRandom};

impl Composed {
    pub(super) fn layer_plans<'a>(
        &self,
        net: &NetView<'a>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let conserve = turnover.conserves();
        let ask = |layer: &LayerView<'a>| {
            let (scores, eligible) = self.scores(layer)?;
            let quotas = layer.quotas(turnover);
            let drop = quotas.drop.min(eligible);
            let quota = match (&self.grow, conserve) {
                (None, _) => 0,
                (_, true) => drop,
                (_, false) => quotas.grow,
            };
            let dropped = lowest(&scores, drop);
            Ok(Asked {
                taken: self.taken(layer, &dropped),
                scores,
                dropped,
                places: Places::Layer(quota),
            })
        };
        let plan = |layer: &LayerView<'a>, asked: Asked<'a>, mut grown: Grown| {
            let count = grown.flats.len();
            let dropped = match conserve && count < asked.quota().total() {
                true => lowest(&asked.scores, count),
                false => asked.dropped,
            };
            self.finish(layer, &dropped, &grown.flats, &mut grown.rng)
        };
        self.each(net, ask, plan, random)
    }

    pub(super) fn row_plans<'a>(
        &self,
        net: &NetView<'a>,
        turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let conserve = turnover.conserves();
        let ask = |layer: &LayerView<'a>| {
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
                drops.push(drop);
                quotas.push(match (&self.grow, conserve) {
                    (None, _) => 0,
                    (_, true) => drop,
                    (_, false) => grow,
                });
            }
            let dropped = lowest_per_row(&scores, layer.pattern, &drops);
            Ok(Asked {
                taken: self.taken(layer, &dropped),
                scores,
                dropped,
                places: Places::Rows(quotas),
            })
        };
        let plan = |layer: &LayerView<'a>, asked: Asked<'a>, mut grown: Grown| {
            let mut dropped = asked.dropped;
            if conserve && grown.flats.len() < dropped.len() {
                let mut found = vec![0; layer.pattern.rows()];
                let width = layer.pattern.columns() as u64;
                for flat in &grown.flats {
                    // What is out of range is refused below.
                    if let Some(count) = found.get_mut((flat / width) as usize) {
                        *count += 1;
                    }
                }
                dropped = lowest_per_row(&asked.scores, layer.pattern, &found);
            }
            self.finish(layer, &dropped, &grown.flats, &mut grown.rng)
        };
        self.each(net, ask, plan, random)
    }
}
