//! What Burn's own data parallelism does without CUDA; `docs/distributed.md` says so.

use std::panic::catch_unwind;

use burn::tensor::distributed::{
    DistributedConfig, DistributedContext, ReduceOperation, all_reduce,
};
use burn::tensor::{Device, Tensor};
use snack_burn::dist::{Collectives, communicators};

use crate::support::{flex, panic_text};

#[test]
fn burn_refuses_collectives_of_flex() {
    let Some(backend) = flex() else { return };
    let device = backend.device.clone();
    let devices = [device.clone(), device.clone()];
    assert!(!Collectives::suit(&devices));

    let sum = {
        let devices = devices.to_vec();
        catch_unwind(move || {
            let tensor = Tensor::<1>::ones([2], &device);
            all_reduce(tensor, ReduceOperation::Sum, devices).resolve()
        })
    };
    let text = panic_text(sum.expect_err("Burn reduces on the host now"));
    assert!(text.contains("not supported"), "{text}");

    let context = catch_unwind(|| {
        let config = DistributedConfig {
            all_reduce_op: ReduceOperation::Mean,
        };
        DistributedContext::init(devices.to_vec(), config)
    });
    let text = panic_text(context.expect_err("Burn has a server for the host now"));
    assert!(text.contains("not supported"), "{text}");
}

#[test]
fn one_device_needs_no_communication() {
    let ranks = communicators(&[Device::default()]);
    assert_eq!((ranks.len(), ranks[0].ranks()), (1, 1));
    assert_eq!(ranks[0].all_gather("test", vec![1]).unwrap(), [[1]]);
}
