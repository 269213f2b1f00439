//! What comes out of reductions and gatherings, against the same on the host.

use burn::optim::GradientsParams;
use burn::tensor::Device;
use burn::tensor::distributed::ReduceOperation;
use snack_burn::dist::{Collectives, communicators, reduce_gradients};

use super::group::{BATCH, Net, host, on_devices};
use crate::support::{assert_within, flex, floats, tensor1, tensor2};

/// Lists of nothing, of little, and of more than travels joined; none a power of two.
const LENGTHS: [usize; 4] = [3, 0, 1, 70_001];
/// Rows of three ranks, for one tensor each: unequal, some empty, all empty, equal.
const ROWS: [[usize; 3]; 5] = [[3, 5, 2], [0, 4, 0], [4, 0, 1], [0, 0, 0], [1, 1, 1]];

fn numbers(rank: usize, count: usize) -> Vec<f32> {
    let number = |i: usize| ((7 * i + 3 * rank + 1) as f32 * 0.37).sin();
    (0..count).map(number).collect()
}

/// That these devices reduce among themselves, so that a test of that cannot pass without.
pub fn assert_collective(devices: &[Device]) {
    assert!(Collectives::suit(devices), "{devices:?}: is NCCL missing?");
    for rank in communicators(devices) {
        let text = format!("{rank:?}");
        assert!(text.starts_with("Collectives"), "{text}");
    }
}

/// Every rank gets the same bits, which are those of the host but for rounding.
pub fn lists_are_reduced(devices: &[Device]) {
    let ranks = devices.len();
    for (operation, share) in [
        (ReduceOperation::Sum, 1.0),
        (ReduceOperation::Mean, 1.0 / ranks as f64),
    ] {
        let found = on_devices(devices, |ranks, device| {
            let device = device.inner();
            let lists = LENGTHS.map(|length| tensor1(&numbers(ranks.rank(), length), &device));
            let reduced = ranks.all_reduce(lists.to_vec(), operation).unwrap();
            reduced.iter().map(floats).collect::<Vec<_>>()
        });
        let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
        for (index, length) in LENGTHS.into_iter().enumerate() {
            let mut expected = vec![0.0; length];
            for rank in 0..ranks {
                let own = numbers(rank, length).into_iter().map(f64::from);
                expected
                    .iter_mut()
                    .zip(own)
                    .for_each(|(sum, own)| *sum += share * own);
            }
            for lists in &found {
                assert_eq!(lists[index], found[0][index]);
                assert_within("a reduced list", &lists[index], &expected, 1e-6);
            }
        }
    }
}

/// The gradient of every slot and bias is the mean of those of all ranks.
pub fn slots_are_averaged(devices: &[Device]) {
    let start = Net::new(3, &devices[0].clone().autodiff());
    let found = on_devices(devices, |ranks, device| {
        let net = start.replica_on(&device);
        let part = BATCH / ranks.ranks();
        let rows = part * ranks.rank()..part * (ranks.rank() + 1);
        let own = GradientsParams::from_grads(net.loss(0, rows).backward(), &net);
        let before = lists(&net, &own);
        let reduced = reduce_gradients(&*ranks, &net, own).unwrap();
        (before, lists(&net, &reduced))
    });
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    for index in 0..4 {
        let mut expected = vec![0.0; found[0].0[index].len()];
        for (own, _) in &found {
            let own = own[index].iter().map(|own| own / devices.len() as f64);
            expected
                .iter_mut()
                .zip(own)
                .for_each(|(sum, own)| *sum += own);
        }
        for (own, reduced) in &found {
            assert_ne!(own[index], reduced[index]);
            assert_eq!(reduced[index], found[0].1[index]);
            assert_within("gradients", &reduced[index], &expected, 1e-6);
        }
    }
}

/// The gradients of a network: values and bias of the first layer, then of the last.
fn lists(net: &Net, grads: &GradientsParams) -> Vec<Vec<f64>> {
    let layers = [&net.first, &net.last].into_iter();
    let ids = layers.flat_map(|layer| [layer.values.id, layer.bias.as_ref().unwrap().id]);
    ids.map(|id| floats(&grads.get::<1>(id).unwrap())).collect()
}

/// Rows come in the order of ranks, exactly, whoever has none.
pub fn rows_are_gathered(devices: &[Device]) {
    const WIDTH: usize = 6;
    let ranks = devices.len();
    let found = on_devices(devices, |ranks, device| {
        let device = device.inner();
        let rank = ranks.rank();
        let own = ROWS.map(|rows| {
            let dims = [rows[rank], WIDTH];
            tensor2(&numbers(rank, dims[0] * WIDTH), dims, &device)
        });
        assert!(ranks.all_gather_rows(Vec::new()).unwrap().is_empty());
        let gathered = ranks.all_gather_rows(own.to_vec()).unwrap();
        let parts = gathered.iter().map(|rows| (rows.dims(), floats(rows)));
        parts.collect::<Vec<_>>()
    });
    for gathered in found {
        let gathered = gathered.unwrap();
        assert_eq!(gathered.len(), ROWS.len());
        for ((dims, found), rows) in gathered.into_iter().zip(ROWS) {
            let rows = &rows[..ranks];
            assert_eq!(dims, [rows.iter().sum(), WIDTH]);
            let parts = rows.iter().enumerate();
            let expected = parts.flat_map(|(rank, &rows)| numbers(rank, rows * WIDTH));
            assert_eq!(found, expected.map(f64::from).collect::<Vec<_>>());
        }
    }
}

#[test]
fn threads_reduce_lists() {
    if flex().is_some() {
        lists_are_reduced(&host(2));
        lists_are_reduced(&host(3));
    }
}

#[test]
fn threads_average_slots() {
    if flex().is_some() {
        slots_are_averaged(&host(2));
    }
}

#[test]
fn threads_gather_rows() {
    if flex().is_some() {
        rows_are_gathered(&host(2));
        rows_are_gathered(&host(3));
    }
}

#[test]
#[should_panic(expected = "is NCCL missing?")]
fn threads_are_no_collectives() {
    assert_collective(&[Device::default(), Device::default()]);
}
