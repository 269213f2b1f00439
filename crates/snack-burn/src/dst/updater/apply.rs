//! One remap for everything that has an element per connection.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::ModuleOptimizer;

use super::Dst;
use super::decide::Decision;
use crate::dst::{Changes, DstError, LayerChange, SlotChange, remapped_record};
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
        let (mut weights, mut moved) = (BTreeMap::new(), Vec::new());
        let mut changes = Changes::default();
        for (layer, plan, policy) in decision.plans {
            let data = layer.values.clone().detach().into_data();
            let new = NewWeights {
                values: plan.remap.apply_with(data, Some(&plan.values)),
                pattern: plan.pattern.clone(),
            };
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
        match remapped_record(optimizer, &slots) {
            Ok(Some(record)) => *optimizer = optimizer.clone().load_record(record),
            Ok(None) => {}
            Err(error) => {
                self.last = None;
                return (model, Err(error));
            }
        }
        let model = replace_weights(model, weights);
        for (change, (_, _, values)) in changes.layers.iter().zip(&moved) {
            self.slots.apply(change, values, self.step, self.seed);
            for follower in &mut self.followers {
                follower.remap(change);
            }
        }
        self.changes = Some(changes);
        (model, Ok(()))
    }
}
