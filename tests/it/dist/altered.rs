//! An update that one rank makes otherwise than the others.

use std::sync::{Arc, Mutex};

use burn::optim::SgdConfig;
use burn::tensor::Tensor;
use burn::tensor::distributed::ReduceOperation;
use snack_burn::dist::{Communicator, DistError, Traffic};
use snack_burn::prelude::*;

use super::group::{Net, on_ranks};
use crate::support::flex;

/// The plans of rank 0, on their way to the others.
const PLANS: &str = "adopt plans";

/// A communicator that listens to the plans of rank 0, or puts others in their place.
#[derive(Debug)]
struct Between {
    ranks: Arc<dyn Communicator>,
    heard: Mutex<Vec<u8>>,
    instead: Option<Vec<u8>>,
}

impl Communicator for Between {
    fn rank(&self) -> usize {
        self.ranks.rank()
    }

    fn ranks(&self) -> usize {
        self.ranks.ranks()
    }

    fn all_gather(
        &self,
        operation: &'static str,
        bytes: Vec<u8>,
    ) -> Result<Vec<Vec<u8>>, DistError> {
        let mut messages = self.ranks.all_gather(operation, bytes)?;
        if operation == PLANS {
            *self.heard.lock().unwrap() = messages[0].clone();
            if let Some(instead) = &self.instead {
                messages[0] = instead.clone();
            }
        }
        Ok(messages)
    }

    fn all_reduce(
        &self,
        tensors: Vec<Tensor<1>>,
        operation: ReduceOperation,
    ) -> Result<Vec<Tensor<1>>, DistError> {
        self.ranks.all_reduce(tensors, operation)
    }

    fn all_gather_rows(&self, tensors: Vec<Tensor<2>>) -> Result<Vec<Tensor<2>>, DistError> {
        self.ranks.all_gather_rows(tensors)
    }

    fn leave(&self, reason: &str) {
        self.ranks.leave(reason);
    }

    fn traffic(&self) -> Traffic {
        self.ranks.traffic()
    }
}

/// What rank 1 has after one update by a seed: the plans that it heard, patterns, and the outcome.
fn second_of_two(
    start: &Net,
    seed: u64,
    instead: Option<Vec<u8>>,
) -> (Vec<u8>, Vec<Pattern>, [Result<(), DstError>; 2]) {
    let config = DstConfig::set().with_every(1).with_seed(seed);
    let mut outcomes = on_ranks(2, |ranks| {
        let ranks = Arc::new(Between {
            instead: instead.clone().filter(|_| ranks.rank() == 1),
            heard: Mutex::default(),
            ranks,
        });
        let net = start.replica();
        let mut optim = SgdConfig::new().init();
        let mut dst = config.init(&net).unwrap();
        dst.set_ranks(ranks.clone());
        let (net, result) = dst.try_step(net, &mut optim);
        (ranks.heard.lock().unwrap().clone(), net.patterns(), result)
    });
    let (heard, patterns, second) = outcomes.pop().unwrap().unwrap();
    let (_, _, first) = outcomes.pop().unwrap().unwrap();
    (heard, patterns, [first, second])
}

/// Patterns that agreed before an update are compared after it, too.
#[test]
fn an_update_that_differs_is_found_at_once() {
    let Some(backend) = flex() else { return };
    let start = Net::new(3, &backend.autodiff());
    let (plans, expected, outcome) = second_of_two(&start, 1, None);
    assert_eq!(outcome, [Ok(()), Ok(())]);

    let (_, found, outcome) = second_of_two(&start, 2, Some(plans));
    assert_eq!(found, expected);
    for error in outcome.map(Result::unwrap_err) {
        assert!(
            matches!(&error, DstError::Ranks(DistError::PatternsDiffer { layer, rank: 1, .. }) if layer == "first"),
            "{error}"
        );
    }
}
