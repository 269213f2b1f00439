//! What can be wrong with a topology method.

use crate::dist::DistError;
use crate::error::SparseError;
use crate::nn::layer_label;

/// A setting of dynamic sparse training that cannot work, or a model that it does not fit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DstError {
    /// A share is not a number of `[0, 1)`.
    #[error("{what} {} is out of range, expected a number in [0, 1)", number(*value))]
    InvalidFraction {
        /// The setting.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A setting is outside its range.
    #[error("{what} {} is out of range, expected {expected}", number(*value))]
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
        "a sparsity of {} % is infeasible for these layers, expected at most {} % \
         (a density of {}, expected at least {})",
        percent(1.0 - density), percent(*largest_sparsity),
        digits(*density, false), digits(*smallest_density, true)
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
    #[error("there is no layer `{}`", layer_label(name))]
    UnknownLayer {
        /// The name found.
        name: String,
    },
    /// A layer has no setting of its own where every layer needs one.
    #[error("nothing is set for layer `{}`", layer_label(name))]
    MissingLayer {
        /// The layer.
        name: String,
    },
    /// Two layers have the same name.
    #[error(
        "layer `{}` occurs more than once, expected different names",
        layer_label(name)
    )]
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
    #[error(
        "no sparse layer of the model is rewired, the first of {layers} is `{}`",
        layer_label(first)
    )]
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
    #[error(
        "the saved state of layer `{}` has {found} slots, expected {expected}",
        layer_label(layer)
    )]
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
    /// The saved state belongs to a layer of another shape.
    #[error(
        "the saved state of layer `{}` is that of a layer of {} x {}, expected {} x {}",
        layer_label(layer), found[0], found[1], expected[0], expected[1]
    )]
    StateOfOtherShape {
        /// Path of the layer.
        layer: String,
        /// Shape of the model's.
        expected: [u64; 2],
        /// Shape that the state was saved for.
        found: [u64; 2],
    },
    /// The saved state belongs to as many connections, but others.
    #[error(
        "the saved state of layer `{}` belongs to other coordinates than the model has; load the \
         model that was saved with it",
        layer_label(layer)
    )]
    StateOfOtherPattern {
        /// Path of the layer.
        layer: String,
    },
    /// The saved state belongs to a rule that keeps or looks at other things.
    #[error(
        "the saved state of layer `{}` is that of a rule that uses {found}, this one uses \
         {expected}; continue with the rule of the saved run, or start another one with \
         `DstState::at_step`",
        layer_label(layer)
    )]
    StateOfOtherRule {
        /// Path of the layer.
        layer: String,
        /// What the present rule uses.
        expected: String,
        /// What the rule of the saved state used.
        found: String,
    },
    /// The saved state has nothing on a layer of the model.
    #[error(
        "the saved state has no layer `{}`, which the model has",
        layer_label(layer)
    )]
    StateWithoutLayer {
        /// Path of the layer.
        layer: String,
    },
    /// Something else than the updater has given a layer other connections.
    #[error(
        "layer `{layer}` was changed by something else since the updater saw it last: it has \
         {found} connections, expected {expected}{}; one updater owns a model, and the model that \
         its last step returned must come to the next", if found == expected {
            " at the same coordinates"
        } else {
            ""
        }
    )]
    LayerChanged {
        /// Path of the layer.
        layer: String,
        /// Connections that the updater left.
        expected: usize,
        /// Connections of the model.
        found: usize,
    },
    /// The model has other layers than the one that the updater was made for.
    #[error(
        "the model has {found} sparse layers, expected {expected}, those of the model that the \
         updater was made for"
    )]
    LayerCount {
        /// Layers that the updater was made for.
        expected: usize,
        /// Layers of the model.
        found: usize,
    },
    /// Two layers share one parameter of values.
    #[error(
        "layers `{first}` and `{second}` share one parameter: layers whose values are tied, or \
         clones of one layer, cannot be rewired"
    )]
    TiedLayers {
        /// Path of the first.
        first: String,
        /// Path of the second.
        second: String,
    },
    /// A group of parameters matches none of the sparse layers.
    #[error("{group} matches no sparse layer, expected one such as `{first}`")]
    GroupMatchesNothing {
        /// The group.
        group: String,
        /// Path of the first layer's values.
        first: String,
    },
    /// Reachability is asked for of layers that do not form a chain.
    #[error(
        "the layers do not form a chain in the order of the model ({source}); say how they are \
         connected by `with_graph(Some(LayerGraph::new(...)?))`"
    )]
    NoChain {
        /// Where the chain breaks.
        source: Box<DstError>,
    },
    /// A criterion needs data that it did not ask for.
    #[error(
        "layer `{}`: the criterion uses {signal}, for which it did not ask",
        layer_label(layer)
    )]
    MissingSignal {
        /// Path of the layer.
        layer: String,
        /// The missing data.
        signal: &'static str,
    },
    /// A criterion gave a list of another length than the layer's.
    #[error(
        "layer `{}`: {found} prune scores, expected {expected}",
        layer_label(layer)
    )]
    ScoreCount {
        /// Path of the layer.
        layer: String,
        /// Slots of the layer.
        expected: usize,
        /// Scores given.
        found: usize,
    },
    /// A criterion proposed coordinates that it may not propose.
    #[error("layer `{}`: {source}", layer_label(layer))]
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
    /// The ranks that train together cannot go on.
    #[error(transparent)]
    Ranks(#[from] DistError),
}

/// A number in a message, without long rows of digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 | 1e-4..1e7 => value.to_string(),
        size if size.is_finite() => format!("{value:e}"),
        _ => value.to_string(),
    }
}

/// Four significant digits, rounded to the nearest number or up.
fn digits(value: f64, up: bool) -> String {
    if value <= 0.0 || !value.is_finite() {
        return number(value);
    }
    let unit = 10f64.powi(value.log10().floor() as i32 - 3);
    let units = value / unit;
    let units = match up {
        // What is whole but for rounding stays.
        true => (units - 1e-6).ceil(),
        false => units.round(),
    };
    let decimals = (-(unit.log10().round() as i32)).max(0) as usize;
    let text = format!("{:.decimals$}", units * unit);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A share below 1 in percent, rounded down, with enough digits to tell it from 100.
fn percent(share: f64) -> String {
    let missing = 1.0 - share;
    if !(missing > 0.0 && missing <= 1.0) {
        return number(100.0 * share);
    }
    let decimals = (-(missing.log10().floor() as i32)).max(0) as usize + 1;
    let unit = 10f64.powi(decimals as i32);
    // What is whole but for rounding stays.
    let text = format!(
        "{:.decimals$}",
        (100.0 * share * unit + 1e-6).floor() / unit
    );
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 1.5, -0.1, 1e30, 1e-9, f64::NAN, f64::INFINITY].map(number);
        assert_eq!(numbers, ["0", "1.5", "-0.1", "1e30", "1e-9", "NaN", "inf"]);
        assert_eq!(digits(0.166_802, true), "0.1669");
        assert_eq!(digits(0.25, true), "0.25");
        assert_eq!(digits(1.000_000_000_03e-6, false), "0.000001");
        assert_eq!(digits(0.0, true), "0");
        assert_eq!(percent(0.999_999), "99.9999");
        assert_eq!(percent(0.9), "90");
        assert_eq!(percent(0.833_198), "83.31");
    }
}
