//! Whether the optimizer keeps what the rules expect of it.

use burn::module::Module;
use burn::optim::ModuleOptimizer;

use super::Dst;
use crate::dst::{DstError, StatePolicy, check_local_clocks};
use crate::nn::find_layers;

impl Dst {
    /// Refuses an optimizer without a step counter for every connection where a rule needs them, as
    /// soon as it has states, and not only when the first connections are replaced.
    pub(super) fn check_clocks<M: Module>(
        &mut self,
        model: &M,
        optimizer: &ModuleOptimizer,
    ) -> Result<(), DstError> {
        let needs = |layer: usize| {
            self.rule_of(layer)
                .is_some_and(|rule| rule.state == StatePolicy::LocalClock)
        };
        if self.clocks_checked || !(0..self.layers.len()).any(needs) {
            return Ok(());
        }
        let found = find_layers(model).into_iter().enumerate();
        let layers: Vec<_> = found
            .filter(|(index, _)| *index < self.layers.len() && needs(*index))
            .map(|(_, layer)| (layer.values_id, layer.name))
            .collect();
        self.clocks_checked = check_local_clocks(optimizer, &layers)?;
        Ok(())
    }
}
