use super::communities::{Members, Place, skewed};
use crate::{EdgeRule, FeatureMatrix, GraphData, Labels, NodeSplit};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use thiserror::Error;

/// Items that are drawn from one stream of random numbers, so that threads can share the work.
const CHUNK: usize = 1 << 16;

/// Sizes of which no graph can be made.
#[derive(Debug, Error, PartialEq)]
#[error("{name} is {value}, but must be {allowed}")]
pub struct SyntheticError {
    /// The size.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What is allowed.
    pub allowed: String,
}

/// A random graph whose nodes lie in communities, one for every class.
///
/// An edge starts at a random node and ends, with probability [`homophily`](Self::homophily), in the
/// same community, and anywhere else. Ends are skewed, so that some nodes have many edges. Features are the
/// centre of the community, drawn from a normal distribution, and noise around it.
///
/// Some nodes lie between two communities: a share of their edges and features, up to
/// [`overlap`](Self::overlap), is that of a second one. The label is the first, which the edges tell the less surely
/// the nearer the share is to a half.
///
/// The same numbers give the same graph, on any number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct SyntheticGraph {
    /// Number of nodes.
    pub nodes: usize,
    /// Number of stored edges; each stands for two.
    pub edges: usize,
    /// Number of features of a node.
    pub features: usize,
    /// Number of classes.
    pub classes: usize,
    /// Share of the edges that certainly stay inside a community.
    pub homophily: f64,
    /// Largest share of a node that lies in a second community, at most a half; shares are uniform up to it.
    pub overlap: f64,
    /// Size of the centres of the communities, in standard deviations of the noise.
    pub signal: f64,
    /// Share of the nodes to learn from.
    pub train: f64,
    /// Share of the nodes to select by; all others are to judge by.
    pub valid: f64,
    /// Seed of everything.
    pub seed: u64,
}

/// What is drawn; each has streams of its own.
#[derive(Clone, Copy)]
enum Draw {
    Labels,
    Centres,
    Edges,
    Features,
    Split,
    Second,
}

impl SyntheticGraph {
    /// The sizes of ogbn-products: 2 449 029 nodes, 61 859 140 edges, 100 features, 47 classes, and
    /// its shares of the three splits.
    pub fn products() -> Self {
        Self {
            nodes: 2_449_029,
            edges: 61_859_140,
            features: 100,
            classes: 47,
            homophily: 0.8,
            overlap: 0.5,
            signal: 0.3,
            train: 0.0803,
            valid: 0.0161,
            seed: 0,
        }
    }

    /// A graph for tests: 600 nodes, 2 400 edges, 16 features, 5 classes.
    pub fn small() -> Self {
        Self {
            nodes: 600,
            edges: 2_400,
            features: 16,
            classes: 5,
            homophily: 0.8,
            overlap: 0.0,
            signal: 0.5,
            train: 0.2,
            valid: 0.2,
            seed: 0,
        }
    }

    /// Draws the graph.
    ///
    /// # Errors
    ///
    /// The first size that is out of its range.
    pub fn generate(&self) -> Result<GraphData, SyntheticError> {
        self.validate()?;
        let places = self.places();
        let members = Members::new(&places, self.classes);
        Ok(GraphData {
            edges: self.edges(&places, &members),
            rule: EdgeRule::AddReverse,
            features: self.features(&places),
            labels: Labels::new(places.iter().map(|place| Some(place.first))),
            split: self.split(),
        })
    }

    fn validate(&self) -> Result<(), SyntheticError> {
        let fault = |name, value: String, allowed: String| {
            Err(SyntheticError {
                name,
                value,
                allowed,
            })
        };
        let sizes = [
            ("the number of nodes", self.nodes, 3, i32::MAX as usize),
            ("the number of edges", self.edges, 0, i32::MAX as usize),
            ("the number of features", self.features, 1, 1 << 20),
            ("the number of classes", self.classes, 1, self.nodes),
        ];
        for (name, value, min, max) in sizes {
            if !(min..=max).contains(&value) {
                return fault(name, value.to_string(), format!("between {min} and {max}"));
            }
        }
        for (name, share, most) in [
            ("the homophily", self.homophily, 1.0),
            ("the overlap", self.overlap, 0.5),
        ] {
            if !(0.0..=most).contains(&share) {
                return fault(name, share.to_string(), format!("between 0 and {most}"));
            }
        }
        if !self.signal.is_finite() {
            return fault("the signal", self.signal.to_string(), "finite".into());
        }
        let [train, valid] = self.parts();
        if train == 0 || valid == 0 || train + valid >= self.nodes {
            let value = format!("{} and {}", self.train, self.valid);
            let allowed = "such that no part of the nodes is empty";
            return fault(
                "the shares of training and validation",
                value,
                allowed.into(),
            );
        }
        Ok(())
    }

    fn parts(&self) -> [usize; 2] {
        [self.train, self.valid].map(|share| (share * self.nodes as f64).round() as usize)
    }

    fn rng(&self, draw: Draw, chunk: usize) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        rng.set_stream((draw as u64) << 48 | chunk as u64);
        rng
    }

    /// `count` items, `CHUNK` of them from each stream.
    fn draw<T: Send>(
        &self,
        what: Draw,
        count: usize,
        one: impl Fn(&mut ChaCha8Rng, usize) -> T + Sync,
    ) -> Vec<T> {
        let chunks = (0..count.div_ceil(CHUNK)).into_par_iter();
        let items = chunks.flat_map_iter(|chunk| {
            let mut rng = self.rng(what, chunk);
            let one = &one;
            let end = count.min((chunk + 1) * CHUNK);
            (chunk * CHUNK..end).map(move |index| one(&mut rng, index))
        });
        items.collect()
    }

    /// Every class has a node; the first ones have more.
    fn places(&self) -> Vec<Place> {
        let firsts = self.draw(Draw::Labels, self.nodes, |rng, node| {
            let drawn = skewed(rng, self.classes) as u32;
            if node < self.classes {
                node as u32
            } else {
                drawn
            }
        });
        self.draw(Draw::Second, self.nodes, |rng, node| {
            let share = self.overlap * rng.random::<f64>();
            Place {
                first: firsts[node],
                second: skewed(rng, self.classes) as u32,
                share,
            }
        })
    }

    fn edges(&self, places: &[Place], members: &Members) -> Vec<[u32; 2]> {
        self.draw(Draw::Edges, self.edges, |rng, _| {
            let source = rng.random_range(0..self.nodes);
            let target = match rng.random_bool(self.homophily) {
                true => {
                    let community = members.of(places[source].draw(rng));
                    community[skewed(rng, community.len())]
                }
                false => rng.random_range(0..self.nodes) as u32,
            };
            [source as u32, target]
        })
    }

    fn features(&self, places: &[Place]) -> FeatureMatrix {
        let width = self.features;
        let mut rng = self.rng(Draw::Centres, 0);
        let centres: Vec<f32> = StandardNormal
            .sample_iter(&mut rng)
            .take(self.classes * width)
            .map(|x: f64| (self.signal * x) as f32)
            .collect();
        let centre = |community: u32| &centres[community as usize * width..][..width];
        let mut values = vec![0.0; self.nodes * width];
        let chunks = values
            .par_chunks_mut(CHUNK * width)
            .zip(places.par_chunks(CHUNK));
        chunks.enumerate().for_each(|(chunk, (values, places))| {
            let mut rng = self.rng(Draw::Features, chunk);
            for (row, place) in values.chunks_mut(width).zip(places) {
                let centres = centre(place.first).iter().zip(centre(place.second));
                for (value, (first, second)) in row.iter_mut().zip(centres) {
                    let centre = first + place.share as f32 * (second - first);
                    *value = centre + rng.sample::<f32, _>(StandardNormal);
                }
            }
        });
        FeatureMatrix { width, values }
    }

    fn split(&self) -> NodeSplit {
        let mut nodes: Vec<u32> = (0..self.nodes as u32).collect();
        let mut rng = self.rng(Draw::Split, 0);
        for last in (1..nodes.len()).rev() {
            nodes.swap(last, rng.random_range(0..=last));
        }
        let [train, valid] = self.parts();
        let mut rest = nodes.split_off(train);
        let test = rest.split_off(valid);
        let sorted = |mut nodes: Vec<u32>| {
            nodes.sort_unstable();
            nodes
        };
        NodeSplit {
            train: sorted(nodes),
            valid: sorted(rest),
            test: sorted(test),
        }
    }
}
