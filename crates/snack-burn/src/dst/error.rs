//! What can be wrong with a topology method.

use crate::error::SparseError;

/// A setting of dynamic sparse training that cannot work, or a model that it does not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DstError {
    /// A share is not a number of `[0, 1)`.
    #[error("{what} {value} is out of range, expected a number in [0, 1)")]
    InvalidFraction {
        /// The setting.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A setting is outside its range.
    #[error("{what} {value} is out of range, expected {expected}")]
    InvalidParameter {
        /// The setting.
        what: &'static str,
        /// The number found.
        value: f64,
        /// The range.
        expected: &'static str,
    },
    /// Updates without any step between them.
    #[error("an interval of 0 steps between updates is too short, expected at least 1")]
    ZeroInterval,
    /// The last step of a schedule comes before its first.
    #[error("updates stop at step {stop}, expected at least step {start}, where they start")]
    StopBeforeStart {
        /// Step of the first update.
        start: u64,
        /// Step after which there is none.
        stop: u64,
    },
    /// A schedule whose turnover changes over a run does not know how long the run is.
    #[error("a {schedule} schedule has no last step, expected `Timing::until`")]
    MissingStop {
        /// The schedule.
        schedule: &'static str,
    },
    /// The stages of a staircase are not in order.
    #[error("stage {position} ends at step {until}, expected a step after {previous}")]
    StagesOutOfOrder {
        /// Index of the stage, counted from 0.
        position: usize,
        /// Its last step.
        until: u64,
        /// The last step of the stage before.
        previous: u64,
    },
    /// Fewer connections were asked for than the layers have at least: all of those kept dense,
    /// and one in each other layer.
    #[error(
        "density {density} is infeasible, expected at least {smallest_density} \
         (a sparsity of at most {largest_sparsity})"
    )]
    InfeasibleDensity {
        /// The density asked for, over all layers.
        density: f64,
        /// The smallest density that these layers allow.
        smallest_density: f64,
        /// `1 - smallest_density`.
        largest_sparsity: f64,
    },
    /// A name belongs to no layer.
    #[error("there is no layer `{name}`")]
    UnknownLayer {
        /// The name found.
        name: String,
    },
    /// A layer has no setting of its own where every layer needs one.
    #[error("nothing is set for layer `{name}`")]
    MissingLayer {
        /// The layer.
        name: String,
    },
    /// Two layers have the same name.
    #[error("layer `{name}` occurs more than once, expected different names")]
    RepeatedLayer {
        /// The name.
        name: String,
    },
    /// The outputs of one block are not the inputs of the next.
    #[error("{block} takes {found} features, but {expected} come out of the blocks before it")]
    BlocksDoNotChain {
        /// The block at fault.
        block: String,
        /// Number of features before it.
        expected: usize,
        /// Number of features that it takes.
        found: usize,
    },
    /// Bytes that are no record of explored coordinates.
    #[error("the record of explored coordinates is damaged: {reason}")]
    DamagedHistory {
        /// What is wrong with it.
        reason: String,
    },
    /// There is no preset of this name.
    #[error("there is no preset `{name}`, expected one of {known}")]
    UnknownPreset {
        /// The name found.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The model has nothing to rewire.
    #[error("the model has no sparse layer, expected at least one `SparseLinear`")]
    NoSparseLayers,
    /// No sparse layer belongs to a group that is rewired.
    #[error("none of the {layers} sparse layers is rewired, the first is `{first}`")]
    NothingMatches {
        /// Number of sparse layers of the model.
        layers: usize,
        /// Path of the first one.
        first: String,
    },
    /// Two settings exclude each other.
    #[error("{what}")]
    Incompatible {
        /// Which, and why.
        what: &'static str,
    },
    /// The saved state belongs to another model.
    #[error("the saved state of layer `{layer}` has {found} slots, expected {expected}")]
    StateMismatch {
        /// Path of the layer.
        layer: String,
        /// Slots of the model.
        expected: usize,
        /// Slots of the state.
        found: usize,
    },
    /// Bytes that are no state of an updater.
    #[error("the saved state of the updater is damaged: {reason}")]
    DamagedState {
        /// What is wrong with it.
        reason: String,
    },
    /// A criterion needs data that it did not ask for.
    #[error("layer `{layer}`: the criterion uses {signal}, for which it did not ask")]
    MissingSignal {
        /// Path of the layer.
        layer: String,
        /// The missing data.
        signal: &'static str,
    },
    /// A criterion gave a list of another length than the layer's.
    #[error("layer `{layer}`: {found} prune scores, expected {expected}")]
    ScoreCount {
        /// Path of the layer.
        layer: String,
        /// Slots of the layer.
        expected: usize,
        /// Scores given.
        found: usize,
    },
    /// A criterion proposed coordinates that it may not propose.
    #[error("layer `{layer}`: {source}")]
    Proposal {
        /// Path of the layer.
        layer: String,
        /// What is wrong with them.
        source: SparseError,
    },
    /// A method gave another number of plans than there are layers.
    #[error("{found} plans, expected one for each of {expected} layers")]
    PlanCount {
        /// Layers of the view.
        expected: usize,
        /// Plans given.
        found: usize,
    },
    /// The state of the optimizer cannot be moved.
    #[error("the state of the optimizer cannot be moved: {reason}")]
    Optimizer {
        /// Why.
        reason: String,
    },
    /// A pattern, or a list of coordinates, is wrong.
    #[error(transparent)]
    Sparse(#[from] SparseError),
}
