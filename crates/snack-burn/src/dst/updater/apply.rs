//! One remap for everything that has an element per connection.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use rayon::in_place_scope;

use super::Dst;
use super::decide::{Decision, Planned};
use crate::dst::{Changes, DstError, LayerChange, SlotChange, recorded, remapped_record};
use crate::nn::{NewWeights, replace_weights};

impl Dst {
    pub(super) fn apply<M: Module>(
        &mut self,
        model: M,
        optimizer: &mut ModuleOptimizer,
        decision: Decision,
    ) -> (M, Result<(), DstError>) {
        if decision.plans.is_empty() {
            return (model, Ok(()));
        }
        // The optimizer's states are read by this thread while the others prepare the weights.
        let plans = decision.plans;
        let cells: Vec<OnceLock<NewWeights>> = plans.iter().map(|_| OnceLock::new()).collect();
        let record = in_place_scope(|scope| {
            for (planned, cell) in plans.iter().zip(&cells) {
                scope.spawn(move |_| {
                    let _ = cell.set(planned.weights());
                });
            }
            recorded(optimizer)
        });
        let (mut weights, mut moved) = (BTreeMap::new(), Vec::new());
        let mut patterns = Vec::new();
        let mut changes = Changes::default();
        for (planned, new) in plans.into_iter().zip(cells) {
            let Planned {
                layer,
                plan,
                policy,
                ..
            } = planned;
            let new = new.into_inner().expect("the scope has waited for it");
            patterns.push(new.pattern.clone());
            weights.insert(layer.name.clone(), new);
            changes.layers.push(LayerChange {
                name: layer.name,
                values_id: layer.values_id,
                before: layer.pattern.pattern().clone(),
                after: plan.pattern,
                remap: plan.remap,
            });
            moved.push((policy, plan.gradients, plan.values));
        }
        let slots = changes.layers.iter().zip(&moved);
        let slots = slots.map(|(change, (policy, gradients, _))| {
            let slot = SlotChange {
                change,
                policy: *policy,
                gradients: gradients.as_deref(),
            };
            (change.values_id, slot)
        });
        let slots: BTreeMap<_, _> = slots.collect();
        match record.and_then(|record| remapped_record(record, &slots)) {
            Ok(Some(record)) => *optimizer = optimizer.clone().load_record(record),
            Ok(None) => {}
            Err(error) => {
                self.last = None;
                return (model, Err(error));
            }
        }
        let model = replace_weights(model, weights);
        let parts = changes.layers.iter().zip(patterns).zip(&moved);
        for ((change, after), (_, _, values)) in parts {
            self.slots
                .apply(change, after, values, self.step, self.seed);
            for follower in &mut self.followers {
                follower.remap(change);
            }
        }
        self.changes = Some(changes);
        (model, Ok(()))
    }
}

impl Planned {
    /// Values and pattern after the update, and the index that the next step needs.
    fn weights(&self) -> NewWeights {
        let plan = &self.plan;
        NewWeights {
            values: plan
                .remap
                .apply_with(self.values.clone(), Some(&plan.values)),
            pattern: plan.pattern.clone().into(),
            index: self.layer.pattern.prepare(&plan.pattern),
        }
    }
}
