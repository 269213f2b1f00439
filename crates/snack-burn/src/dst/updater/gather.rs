//! Factors of gradients: for which layers they are wanted, and where they go.

use super::{Dst, Rule};
use crate::dist::gather_parts;
use crate::dst::DstError;
use crate::nn::FoundLayer;
use crate::tap::RowSample;

impl Dst {
    /// Takes what the backward passes of this step offered, on all ranks.
    pub(super) fn collect(&mut self, found: &[FoundLayer]) -> Result<(), DstError> {
        let mut offered = self.listener.take();
        // The same layers on every rank, whatever was offered.
        let (mut indices, mut parts) = (Vec::new(), Vec::new());
        for (index, layer) in found.iter().enumerate() {
            let wanted = |rule: &Rule| rule.captures(self.step);
            if self.rule_of(index).is_some_and(wanted) {
                indices.push(index);
                let offered = offered.remove(&layer.values_id.val());
                parts.push((layer.name.as_str(), offered.unwrap_or_default()));
            }
        }
        if indices.is_empty() {
            return Ok(());
        }
        gather_parts(&*self.ranks, &mut parts)?;
        for (index, (name, parts)) in indices.into_iter().zip(parts) {
            let Some(rule) = self.rule_of(index).filter(|_| !parts.is_empty()) else {
                continue;
            };
            let grows = rule.method.needs().needs_factors()
                && rule.schedule.captures(self.step, rule.accumulate);
            if let Some(activity) = rule.activity {
                self.slots
                    .add_activity(&found[index], &parts, activity, self.step);
            }
            if grows {
                self.collected.add(name, parts);
            }
        }
        Ok(())
    }

    /// Listens for the factors of the next step, of the layers whose rules want them.
    pub(super) fn listen(&self, found: &[FoundLayer]) {
        let next = self.step.saturating_add(1);
        let wanting = (0..found.len().min(self.layers.len()))
            .filter(|&layer| self.rule_of(layer).is_some_and(|rule| rule.captures(next)));
        let rows = self.groups.iter().filter_map(|group| group.rule.as_ref());
        let rows = rows.filter_map(|rule| rule.max_rows).min();
        let rows = rows.map(|most| RowSample {
            most,
            // Ranks keep other rows of their batches.
            seed: self.seed ^ next.rotate_left(40) ^ (self.ranks.rank() as u64).rotate_left(20),
        });
        let nodes = wanting.filter_map(|layer| Some((found[layer].node?, found[layer].values_id)));
        self.listener.listen(nodes, rows);
    }
}
