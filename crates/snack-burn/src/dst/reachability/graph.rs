use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Functional;
use crate::dst::DstError;
use crate::dst::bits::Bits;
use crate::error::SparseError;
use crate::nn::layer_label;
use crate::pattern::Pattern;

/// How the sparse layers of a network are connected: blocks, one after the other.
///
/// Activation functions and biases do not appear, as they leave features where they are.
///
/// # Example
///
/// ```
/// use snack_burn::dst::{Block, LayerGraph};
///
/// // A transformer's feed-forward block between a dense embedding and a dense head.
/// let graph = LayerGraph::new(vec![
///     Block::Residual(vec![
///         Block::Mixing { inputs: 8, outputs: 8 }, // LayerNorm
///         Block::Layer { name: "fc".into(), shape: [32, 8] },
///         Block::Layer { name: "proj".into(), shape: [8, 32] },
///     ]),
///     Block::Mixing { inputs: 8, outputs: 50 },
/// ])?;
/// # Ok::<(), snack_burn::dst::DstError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Block>", into = "Vec<Block>")]
pub struct LayerGraph {
    blocks: Vec<Block>,
}

/// A part of a [`LayerGraph`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Block {
    /// A sparse layer.
    Layer {
        /// Its name in the model.
        name: String,
        /// `[m, k]`: outputs and inputs.
        shape: [usize; 2],
    },
    /// Anything in which every output depends on every input: a dense layer, normalization over
    /// features, softmax.
    Mixing {
        /// Number of inputs.
        inputs: usize,
        /// Number of outputs.
        outputs: usize,
    },
    /// `x + blocks(x)`: features also skip the blocks.
    Residual(Vec<Block>),
}

impl LayerGraph {
    /// A network of blocks.
    ///
    /// # Errors
    ///
    /// [`DstError::BlocksDoNotChain`] if a block does not take what the one before gives, or a
    /// residual block changes the number of features; [`DstError::RepeatedLayer`].
    pub fn new(blocks: Vec<Block>) -> Result<Self, DstError> {
        chain_width(&blocks, None)?;
        let graph = Self { blocks };
        let mut names = graph.names();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(DstError::RepeatedLayer {
                name: pair[0].to_owned(),
            }),
            None => Ok(graph),
        }
    }

    /// A network in which every layer takes what the one before gives.
    ///
    /// # Arguments
    ///
    /// * `layers` - names and patterns, from the inputs of the network to its outputs.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new): layers whose shapes do not chain need blocks that say how they are
    /// connected.
    pub fn chain(layers: &[(&str, &Pattern)]) -> Result<Self, DstError> {
        let block = |&(name, pattern): &(&str, &Pattern)| Block::Layer {
            name: name.to_owned(),
            shape: pattern.shape(),
        };
        Self::new(layers.iter().map(block).collect())
    }

    /// The blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Names of the layers, in order.
    pub fn names(&self) -> Vec<&str> {
        fn collect<'a>(blocks: &'a [Block], names: &mut Vec<&'a str>) {
            for block in blocks {
                match block {
                    Block::Layer { name, .. } => names.push(name),
                    Block::Mixing { .. } => {}
                    Block::Residual(inner) => collect(inner, names),
                }
            }
        }
        let mut names = Vec::new();
        collect(&self.blocks, &mut names);
        names
    }

    /// Which connections of the layers lie on a path from an input of the network to an output.
    ///
    /// One sweep forwards and one backwards; time `O(total nnz)`, memory one bit per feature.
    ///
    /// # Arguments
    ///
    /// * `layers` - names and patterns, in any order.
    ///
    /// # Returns
    ///
    /// One entry per layer, in the order given; `None` for layers that are not in the graph.
    ///
    /// # Errors
    ///
    /// [`DstError::MissingLayer`] if there is no pattern for a layer of the graph,
    /// [`DstError::RepeatedLayer`], or [`SparseError::ShapeMismatch`].
    pub fn functional(
        &self,
        layers: &[(&str, &Pattern)],
    ) -> Result<Vec<Option<Functional>>, DstError> {
        let mut sweep = Sweep::default();
        for &(name, pattern) in layers {
            if sweep.patterns.insert(name, pattern).is_some() {
                let name = name.to_owned();
                return Err(DstError::RepeatedLayer { name });
            }
        }
        let [inputs, outputs] = [width_before(&self.blocks), width_after(&self.blocks)];
        let all = |width: Option<usize>| Bits::all(width.unwrap_or(0) as u64);
        sweep.forward(&self.blocks, all(inputs))?;
        sweep.backward(&self.blocks, all(outputs))?;
        let mut take = |&(name, _): &(&str, &Pattern)| {
            let inputs = sweep.inputs.remove(name)?;
            let outputs = sweep.outputs.remove(name)?;
            Some(Functional { inputs, outputs })
        };
        Ok(layers.iter().map(&mut take).collect())
    }
}

impl TryFrom<Vec<Block>> for LayerGraph {
    type Error = DstError;

    fn try_from(blocks: Vec<Block>) -> Result<Self, DstError> {
        Self::new(blocks)
    }
}

impl From<LayerGraph> for Vec<Block> {
    fn from(graph: LayerGraph) -> Self {
        graph.blocks
    }
}

/// The sets of reachable features in front of and behind the layers.
#[derive(Default)]
struct Sweep<'a> {
    patterns: BTreeMap<&'a str, &'a Pattern>,
    inputs: BTreeMap<&'a str, Bits>,
    outputs: BTreeMap<&'a str, Bits>,
}

impl<'a> Sweep<'a> {
    fn pattern(&self, name: &str, shape: [usize; 2]) -> Result<(&'a str, &'a Pattern), DstError> {
        let Some((&name, &pattern)) = self.patterns.get_key_value(name) else {
            let name = name.to_owned();
            return Err(DstError::MissingLayer { name });
        };
        if pattern.shape() != shape {
            return Err(DstError::Sparse(SparseError::ShapeMismatch {
                what: "pattern",
                expected: shape.to_vec(),
                found: pattern.shape().to_vec(),
            }));
        }
        Ok((name, pattern))
    }

    /// Features behind the blocks that the given features in front of them reach.
    fn forward(&mut self, blocks: &[Block], mut reached: Bits) -> Result<Bits, DstError> {
        for block in blocks {
            reached = match block {
                Block::Layer { name, shape } => {
                    let (name, pattern) = self.pattern(name, *shape)?;
                    let mut after = Bits::none(shape[0] as u64);
                    for row in 0..shape[0] {
                        let mut cols = pattern.row(row).iter();
                        if cols.any(|&col| reached.contains(u64::from(col))) {
                            after.insert(row as u64);
                        }
                    }
                    self.inputs.insert(name, reached);
                    after
                }
                Block::Mixing { outputs, .. } => mixed(&reached, *outputs),
                Block::Residual(inner) => self.forward(inner, reached.clone())?.union(&reached),
            };
        }
        Ok(reached)
    }

    /// Features in front of the blocks that reach the given features behind them.
    fn backward(&mut self, blocks: &[Block], mut reached: Bits) -> Result<Bits, DstError> {
        for block in blocks.iter().rev() {
            reached = match block {
                Block::Layer { name, shape } => {
                    let (name, pattern) = self.pattern(name, *shape)?;
                    let mut before = Bits::none(shape[1] as u64);
                    for row in reached.iter() {
                        for &col in pattern.row(row as usize) {
                            before.insert(u64::from(col));
                        }
                    }
                    self.outputs.insert(name, reached);
                    before
                }
                Block::Mixing { inputs, .. } => mixed(&reached, *inputs),
                Block::Residual(inner) => self.backward(inner, reached.clone())?.union(&reached),
            };
        }
        Ok(reached)
    }
}

/// All features on the other side of a mixing block, if there is any on this side.
fn mixed(reached: &Bits, width: usize) -> Bits {
    match reached.count() {
        0 => Bits::none(width as u64),
        _ => Bits::all(width as u64),
    }
}

/// Number of features that blocks take, if they say.
fn width_before(blocks: &[Block]) -> Option<usize> {
    blocks.iter().find_map(|block| match block {
        Block::Layer { shape, .. } => Some(shape[1]),
        Block::Mixing { inputs, .. } => Some(*inputs),
        Block::Residual(inner) => width_before(inner),
    })
}

/// Number of features that blocks give, if they say.
fn width_after(blocks: &[Block]) -> Option<usize> {
    blocks.iter().rev().find_map(|block| match block {
        Block::Layer { shape, .. } => Some(shape[0]),
        Block::Mixing { outputs, .. } => Some(*outputs),
        Block::Residual(inner) => width_after(inner),
    })
}

/// Number of features behind the blocks; refuses blocks that do not fit each other.
fn chain_width(blocks: &[Block], mut width: Option<usize>) -> Result<Option<usize>, DstError> {
    for block in blocks {
        let (description, before, after) = match block {
            Block::Layer { name, shape } => (
                format!("layer `{}`", layer_label(name)),
                Some(shape[1]),
                Some(shape[0]),
            ),
            Block::Mixing { inputs, outputs } => (
                format!("a mixing block of {inputs} inputs and {outputs} outputs"),
                Some(*inputs),
                Some(*outputs),
            ),
            Block::Residual(inner) => {
                let before = width_before(inner);
                let after = chain_width(inner, None)?;
                if let (Some(found), Some(expected)) = (before, after)
                    && found != expected
                {
                    return Err(DstError::BlocksDoNotChain {
                        block: "the sum behind a residual block".to_owned(),
                        expected,
                        found,
                    });
                }
                ("a residual block".to_owned(), before, after)
            }
        };
        if let (Some(expected), Some(found)) = (width, before)
            && found != expected
        {
            return Err(DstError::BlocksDoNotChain {
                block: description,
                expected,
                found,
            });
        }
        width = after.or(width);
    }
    Ok(width)
}
