//! What can go wrong between ranks.

use std::time::Duration;

use super::Fingerprint;
use crate::nn::layer_label;

/// Why ranks cannot go on together.
///
/// `rank` is the rank at fault, or that has something else than rank 0; ranks count from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DistError {
    /// A rank has ended, so that the others cannot go on.
    #[error(
        "rank {rank} of {ranks} has left the group ({reason}); continue from the last checkpoint"
    )]
    RankLost {
        /// The rank that ended.
        rank: usize,
        /// Ranks of the group.
        ranks: usize,
        /// Why, as far as it is known.
        reason: String,
    },
    /// Some rank has not come in time.
    #[error(
        "rank {waiting} has waited {} s in `{operation}` for ranks {missing:?}; continue from the \
         last checkpoint", waited.as_secs_f64()
    )]
    TimedOut {
        /// The rank that gave up.
        waiting: usize,
        /// What it wanted to do.
        operation: &'static str,
        /// The ranks that had not come.
        missing: Vec<usize>,
        /// How long it waited.
        waited: Duration,
    },
    /// Ranks want to do different things.
    #[error(
        "rank {rank} is in `{found}` while rank 0 is in `{expected}`; all ranks must do the same steps, by the same rule, with `set_ranks` on each"
    )]
    OperationMismatch {
        /// The rank.
        rank: usize,
        /// What rank 0 does.
        expected: &'static str,
        /// What the rank does.
        found: &'static str,
    },
    /// The patterns of a layer differ.
    #[error(
        "the pattern of layer `{}` on rank {rank} has fingerprint {found}, expected {expected} as on \
         rank 0; the ranks have diverged",
        layer_label(layer)
    )]
    PatternsDiffer {
        /// Path of the first layer that differs.
        layer: String,
        /// The rank.
        rank: usize,
        /// The fingerprint on rank 0.
        expected: Fingerprint,
        /// The fingerprint on the rank.
        found: Fingerprint,
    },
    /// The values of a parameter differ.
    #[error("parameter `{parameter}` differs on rank {rank}, expected the bits of rank 0")]
    ParametersDiffer {
        /// Path of the first parameter that differs.
        parameter: String,
        /// The rank.
        rank: usize,
    },
    /// The models have other sparse layers.
    #[error(
        "sparse layer {index} of the model is {} on rank {rank}, expected {} as on rank 0",
        or_nothing(found),
        or_nothing(expected)
    )]
    LayersDiffer {
        /// The rank.
        rank: usize,
        /// Place of the first layer that differs, in the order of the model.
        index: usize,
        /// Its path on rank 0, if there is one.
        expected: Option<String>,
        /// Its path on the rank, if there is one.
        found: Option<String>,
    },
    /// The tensors of a reduction have other shapes or types, or are gradients of other parameters.
    #[error("rank {rank} brings {found} to `{operation}`, expected {expected} as on rank 0")]
    TensorsDiffer {
        /// The rank.
        rank: usize,
        /// The operation.
        operation: &'static str,
        /// What rank 0 brings.
        expected: String,
        /// What the rank brings.
        found: String,
    },
    /// The backward passes through a layer differ in number.
    #[error(
        "the number of backward passes through layer `{}` is {found} on rank {rank}, expected \
         {expected} as on rank 0",
        layer_label(layer)
    )]
    PassesDiffer {
        /// Path of the layer.
        layer: String,
        /// The rank.
        rank: usize,
        /// Passes on rank 0.
        expected: usize,
        /// Passes on the rank.
        found: usize,
    },
    /// A message of another rank makes no sense.
    #[error("the message of rank {rank} in `{operation}` is damaged: {reason}")]
    DamagedMessage {
        /// The rank that sent it.
        rank: usize,
        /// The operation.
        operation: &'static str,
        /// What is wrong.
        reason: String,
    },
}

fn or_nothing(name: &Option<String>) -> String {
    match name {
        Some(name) => format!("`{}`", layer_label(name)),
        None => "missing".to_string(),
    }
}
