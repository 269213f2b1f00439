//! Factors of gradients: for which layers they are wanted, and where they go.

use super::Dst;
use crate::nn::FoundLayer;
use crate::tap::RowSample;

impl Dst {
    /// Takes what the backward passes of this step offered.
    pub(super) fn collect(&mut self, found: &[FoundLayer]) {
        let mut parts = self.listener.take();
        for (index, layer) in found.iter().enumerate() {
            let Some(parts) = parts.remove(&layer.values_id.val()) else {
                continue;
            };
            let Some(rule) = self.rule_of(index) else {
                continue;
            };
            let grows = rule.method.needs().needs_factors()
                && rule.schedule.captures(self.step, rule.accumulate);
            if let Some(activity) = rule.activity {
                self.slots.add_activity(layer, &parts, activity, self.step);
            }
            if grows {
                self.collected.add(&layer.name, parts);
            }
        }
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
            seed: self.seed ^ next.rotate_left(40),
        });
        let nodes = wanting.filter_map(|layer| Some((found[layer].node?, found[layer].values_id)));
        self.listener.listen(nodes, rows);
    }
}
