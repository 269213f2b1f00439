//! Ranks in Burn's `Learner`: an updater for each device of `ExecutionStrategy::ddp`.

use std::panic::catch_unwind;

use burn::module::Module;
use burn::tensor::Device;
use burn::tensor::distributed::{DistributedConfig, ReduceOperation};
use burn::train::ExecutionStrategy;
use snack_burn::dst::{RankedDst, RankedRewiring, Rewiring, SharedDst};
use snack_burn::prelude::*;

use crate::dst::learner::{config, launch};
use crate::dst::presets::Chain;
use crate::support::records::contents;
use crate::support::{flex, panic_text};

/// A network trained by Burn's strategy, and the updaters of all devices.
fn in_burns_strategy(devices: &[Device], config: &DstConfig) -> (Chain, RankedDst) {
    let devices: Vec<_> = devices.iter().cloned().map(Device::autodiff).collect();
    let net = Chain::new(&devices[0]);
    let dst = RankedDst::new(&net, config, &devices).unwrap();
    let mean = DistributedConfig {
        all_reduce_op: ReduceOperation::Mean,
    };
    let execution = ExecutionStrategy::ddp(devices.clone(), mean);
    let model = RankedRewiring::new(net, dst.clone());
    (launch(model, &devices[0], execution, 1).model, dst)
}

#[test]
fn one_rank_in_a_learner_is_a_shared_updater() {
    let Some(backend) = flex() else { return };
    let device = backend.autodiff();
    let start = Chain::new(&device);
    let single = || ExecutionStrategy::SingleDevice(device.clone());

    let shared = SharedDst::from(config().init(&start).unwrap());
    let model = Rewiring::new(start.clone(), shared.clone());
    let expected = launch(model, &device, single(), 1).model;

    let devices = std::slice::from_ref(&device);
    let ranked = RankedDst::new(&start, &config(), devices).unwrap();
    let model = RankedRewiring::new(start.clone(), ranked.clone());
    let found = launch(model, &device, single(), 1).model;

    assert_ne!(found.patterns(), start.patterns());
    assert_eq!(found.patterns(), expected.patterns());
    let [found, expected] = [found, expected].map(|net| contents(net.into_record()));
    assert!(found == expected);
    let states: Vec<_> = ranked.updaters().map(SharedDst::state).collect();
    assert_eq!(states, [shared.state()]);
}

/// Neither with a static pattern nor otherwise; `docs/distributed.md` says so.
#[test]
fn burns_strategy_refuses_flex() {
    let Some(backend) = flex() else { return };
    for config in [DstConfig::static_pattern(), config()] {
        let device = backend.device.clone();
        let refused = catch_unwind(move || in_burns_strategy(&[device], &config).0.patterns());
        let text = panic_text(refused.expect_err("Burn has a server for the host now"));
        assert!(text.contains("not supported"), "{text}");
    }
}

#[cfg(feature = "cuda")]
mod two_gpus {
    use super::*;
    use crate::dist::two_gpus::reserve;
    use crate::dst::learner::BATCHES;

    /// Two epochs, of which each device has a half.
    fn trained(config: &DstConfig) -> (Chain, Chain) {
        let _reserved = reserve();
        let devices = [Device::cuda(0), Device::cuda(1)];
        let start = Chain::new(&devices[0].clone().autodiff());
        let (net, dst) = in_burns_strategy(&devices, config);
        let states: Vec<_> = dst.updaters().map(SharedDst::state).collect();
        assert_eq!(states.len(), 2);
        assert_eq!(states[0], states[1]);
        let steps: Vec<_> = dst.updaters().map(SharedDst::steps).collect();
        assert_eq!(steps, [BATCHES as u64; 2]);
        (start, net)
    }

    #[test]
    #[ignore = "needs two CUDA devices"]
    fn a_static_pattern_in_burns_strategy() {
        let (start, net) = trained(&DstConfig::static_pattern());
        assert_eq!(net.patterns(), start.patterns());
        let [start, net] = [start, net].map(|net| contents(net.into_record()));
        assert!(start != net);
    }

    #[test]
    #[ignore = "needs two CUDA devices"]
    fn topology_updates_in_burns_strategy() {
        let (start, net) = trained(&config());
        assert_ne!(net.patterns(), start.patterns());
    }
}
