//! Connections whose value changed its sign leave.

use super::{
    DstError, Grow, Method, NetView, Plan, Quota, Request, Signals, Turnover, Uniform, UpdateRandom,
};

/// Every connection whose value has the other sign than it was born with is replaced by a uniformly
/// drawn one with value zero and a random sign: Deep Rewiring (Bellec et al., 2018), approximately.
///
/// The published rule checks after every step, adds noise to every amplitude and penalizes all of
/// them. Here connections keep their value until the next update, which sees whatever share of them
/// has flipped (the turnover of the schedule only says when), and noise and penalty are left to the
/// optimizer.
#[derive(Debug, Clone, Copy, Default)]
pub struct SignFlip;

impl Method for SignFlip {
    fn needs(&self) -> Signals {
        Signals::SIGNS
    }

    fn plan(
        &self,
        net: &NetView<'_>,
        _turnover: Turnover,
        random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let mut plans = Vec::with_capacity(net.layers.len());
        for (index, layer) in net.layers.iter().enumerate() {
            let signs = layer.signs()?;
            let free = layer.pattern.size() - layer.pattern.nnz() as u64;
            let dropped: Vec<u32> = (0u32..)
                .zip(layer.values.iter().zip(signs))
                .filter(|(_, (value, sign))| **value * f32::from(**sign) < 0.0)
                .map(|(slot, _)| slot)
                .take(usize::try_from(free).unwrap_or(usize::MAX))
                .collect();
            let request = Request::new(Quota::Layer(dropped.len()), layer.pattern);
            let grown = Uniform.propose(layer, &request, &mut random.layer(index))?;
            plans.push(Plan::new(layer.pattern, &dropped, &grown)?);
        }
        Ok(plans)
    }
}

/// Nothing leaves and nothing enters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Static;

impl Method for Static {
    fn plan(
        &self,
        net: &NetView<'_>,
        _turnover: Turnover,
        _random: UpdateRandom,
    ) -> Result<Vec<Plan>, DstError> {
        let plan = |pattern| Ok(Plan::new(pattern, &[], &[])?);
        net.layers.iter().map(|layer| plan(layer.pattern)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dst::LayerView;
    use crate::pattern::Pattern;

    #[test]
    fn flipped_connections_are_replaced() {
        let pattern = Pattern::from_sorted_flats([2, 3], [0, 1, 4, 5]).unwrap();
        let mut layer = LayerView::new("", &pattern, &[0.5, -0.1, -0.0, 2.0]);
        layer.signs = Some(&[1, 1, -1, 1]);
        let net = NetView::new(vec![layer], 3);
        let random = UpdateRandom { seed: 1, step: 3 };
        let turnover = Turnover::replace(0.5);
        let plans = SignFlip.plan(&net, turnover, random).unwrap();
        assert_eq!((plans[0].dropped, plans[0].grown), (1, 1));
        assert!(!plans[0].pattern.contains(0, 1));
        assert_eq!(plans[0].pattern.nnz(), 4);
        let plans = Static.plan(&net, turnover, random).unwrap();
        assert!(plans[0].is_noop());
    }
}
