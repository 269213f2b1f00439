use rand::{Rng, RngExt};

/// Entries that a node has in the lists of its two communities.
const ENTRIES: usize = 16;

/// Where a node of a random graph lies.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its community.
    pub first: u32,
    /// The other one it lies in.
    pub second: u32,
    /// The share of it that does, from 0 to 1.
    pub share: f64,
}

impl Place {
    /// One of the communities, each as often as the node lies in it.
    pub fn draw(&self, rng: &mut impl Rng) -> u32 {
        // A node of one community draws nothing.
        match self.share > 0.0 && rng.random_bool(self.share) {
            true => self.second,
            false => self.first,
        }
    }

    fn entries(&self) -> [(u32, usize); 2] {
        let second = (self.share * ENTRIES as f64).round() as usize;
        [(self.first, ENTRIES - second), (self.second, second)]
    }
}

/// The nodes of every community, each as many times as it has entries there.
pub(super) struct Members {
    starts: Vec<usize>,
    nodes: Vec<u32>,
}

impl Members {
    /// Lists the nodes of `classes` communities.
    pub fn new(places: &[Place], classes: usize) -> Self {
        let mut starts = vec![0; classes + 1];
        for (community, count) in places.iter().flat_map(Place::entries) {
            starts[community as usize + 1] += count;
        }
        for class in 0..classes {
            starts[class + 1] += starts[class];
        }
        let mut next = starts.clone();
        let mut nodes = vec![0; starts[classes]];
        for (node, place) in places.iter().enumerate() {
            for (community, count) in place.entries() {
                let next = &mut next[community as usize];
                nodes[*next..*next + count].fill(node as u32);
                *next += count;
            }
        }
        Self { starts, nodes }
    }

    /// The entries of a community.
    pub fn of(&self, community: u32) -> &[u32] {
        let community = community as usize;
        &self.nodes[self.starts[community]..self.starts[community + 1]]
    }
}

/// A number below `count`, small ones more often than large ones.
pub(super) fn skewed(rng: &mut impl Rng, count: usize) -> usize {
    let x: f64 = rng.random();
    // Rounding may give `count` itself.
    ((x * x * count as f64) as usize).min(count - 1)
}
