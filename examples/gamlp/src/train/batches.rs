use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How the epochs of a stage are cut into batches.
///
/// A batch has nodes to learn from, and in later stages also reliable nodes, in the proportion of their
/// numbers. An epoch ends with the shorter of the two lists. A last batch of a single node is left out,
/// because batch normalization needs two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batches {
    seed: u64,
    nodes: [usize; 2],
    sizes: [usize; 2],
    steps: usize,
}

/// The order of the nodes in an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochOrder {
    orders: [Vec<u32>; 2],
    sizes: [usize; 2],
}

impl Batches {
    /// Batches of about `batch` of `train` nodes to learn from and `reliable` others.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer than two nodes to learn from, or `batch` is less than two.
    pub fn new(train: usize, reliable: usize, batch: usize, seed: u64) -> Self {
        assert!(train > 1 && batch > 1, "Batches: a batch needs two nodes");
        let all = train + reliable;
        let share = |nodes: usize| (batch as u128 * nodes as u128 / all as u128) as usize;
        let sizes = match reliable {
            0 => [batch, 0],
            _ => [share(train).max(1), share(reliable).max(1)],
        };
        let batches = train.div_ceil(sizes[0]);
        let steps = match reliable {
            0 => batches - usize::from(train % batch == 1),
            _ => batches.min(reliable.div_ceil(sizes[1])),
        };
        Self {
            seed,
            nodes: [train, reliable],
            sizes,
            steps,
        }
    }

    /// Leaves out a last batch that is smaller than the others, unless it is the only one.
    pub fn without_partial(mut self) -> Self {
        let lists = self.nodes.iter().zip(self.sizes);
        let whole = lists.filter(|&(_, size)| size > 0);
        let whole = whole.map(|(&nodes, size)| nodes / size).min();
        self.steps = whole.filter(|&steps| steps > 0).unwrap_or(self.steps);
        self
    }

    /// Steps of an epoch.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The order of an epoch: another one in each, the same for the same seed.
    pub fn epoch(&self, epoch: usize) -> EpochOrder {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream(epoch as u64);
        let orders = self.nodes.map(|count| {
            let mut order: Vec<u32> = (0..count as u32).collect();
            for last in (1..count).rev() {
                order.swap(last, rng.random_range(0..=last));
            }
            order
        });
        EpochOrder {
            orders,
            sizes: self.sizes,
        }
    }
}

impl EpochOrder {
    /// Positions in the list of nodes to learn from, and in that of reliable nodes, of a step.
    ///
    /// # Panics
    ///
    /// Panics if the epoch has no such step.
    pub fn batch(&self, step: usize) -> [&[u32]; 2] {
        let part = |list: usize| {
            let order = &self.orders[list];
            let start = step * self.sizes[list];
            &order[start..(start + self.sizes[list]).min(order.len())]
        };
        [part(0), part(1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(batches: &Batches, epoch: usize) -> Vec<u32> {
        let order = batches.epoch(epoch);
        let steps = 0..batches.steps();
        steps
            .flat_map(|step| order.batch(step)[0].to_vec())
            .collect()
    }

    #[test]
    fn an_epoch_holds_every_node_once_in_an_order_of_its_own() {
        let batches = Batches::new(10, 0, 4, 7);
        assert_eq!(batches.steps(), 3);
        let (first, second) = (all(&batches, 0), all(&batches, 1));
        assert_ne!(first, second);
        assert_eq!(first, all(&batches, 0));
        for mut order in [first, second] {
            order.sort();
            assert_eq!(order, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_last_batch_of_one_node_is_left_out() {
        let batches = Batches::new(9, 0, 4, 7);
        assert_eq!((batches.steps(), all(&batches, 0).len()), (2, 8));
        assert_eq!(Batches::new(3, 0, 100, 7).steps(), 1);
    }

    #[test]
    fn a_smaller_last_batch_can_be_left_out() {
        let whole = |train, reliable| Batches::new(train, reliable, 4, 7).without_partial();
        assert_eq!((whole(11, 0).steps(), all(&whole(11, 0), 0).len()), (2, 8));
        assert_eq!(whole(8, 0), Batches::new(8, 0, 4, 7));
        // The only one stays.
        assert_eq!((whole(3, 0).steps(), all(&whole(3, 0), 0).len()), (1, 3));
        let shared = whole(10, 31);
        assert_eq!(shared.steps(), 10);
        assert_eq!(shared.epoch(0).batch(9).map(<[u32]>::len), [1, 3]);
    }

    #[test]
    fn reliable_nodes_share_a_batch_in_proportion() {
        let batches = Batches::new(100, 300, 40, 7);
        assert_eq!(batches.steps(), 10);
        let order = batches.epoch(0);
        assert_eq!(order.batch(9).map(<[u32]>::len), [10, 30]);
    }

    #[test]
    fn every_batch_has_nodes_of_both_kinds() {
        for reliable in [1, 2, 5, 1000] {
            let batches = Batches::new(20, reliable, 4, 7);
            let order = batches.epoch(3);
            for step in 0..batches.steps() {
                assert!(order.batch(step).iter().all(|part| !part.is_empty()));
            }
        }
    }
}
