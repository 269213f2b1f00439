//! Refuses what can never fit into the machine: a process that runs out of memory ends without a word,
//! after minutes perhaps.

use crate::{
    DeviceChoice, GamlpConfig, GamlpError, GraphSource, SparseScope, SyntheticSize, TrainOptions,
    WeightMode,
};
use example_support::{TooLarge, machine_memory};

/// What becomes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Every weight has a gradient and two moments.
    Training,
    /// There are only the weights.
    Inference,
}

/// Checks a random graph, and a model that is used on the host, against the memory of the machine.
///
/// # Errors
///
/// [`GamlpError::TooLarge`] for the first one that does not fit.
pub(crate) fn check_memory(options: &TrainOptions, usage: Use) -> Result<(), GamlpError> {
    let on_host = matches!(options.device, DeviceChoice::Flex | DeviceChoice::Cpu);
    let model = on_host.then_some((&options.model, usage));
    match machine_memory() {
        None => Ok(()),
        Some(total) => Ok(check(&options.graph, model, total)?),
    }
}

fn check(
    graph: &GraphSource,
    model: Option<(&GamlpConfig, Use)>,
    total: u64,
) -> Result<(), TooLarge> {
    let fits = |what, needed| TooLarge::check(what, needed, total);
    if let GraphSource::Synthetic(size) = graph {
        fits("a graph of these --synthetic sizes", graph_bytes(size))?;
    }
    match model {
        Some((model, Use::Training)) => fits(
            "training a model of this --head and --hidden",
            16 * least_weights(model),
        ),
        Some((model, Use::Inference)) => fits(
            "a model of this --head and --hidden",
            4 * least_weights(model),
        ),
        None => Ok(()),
    }
}

/// Edges as stored and by their targets, features and labels.
fn graph_bytes(size: &SyntheticSize) -> u128 {
    let [nodes, edges, features] = [size.nodes, size.edges, size.features].map(|n| n as u128);
    16 * edges + 4 * nodes * (features + 2)
}

/// Weights of the matrices that grow with the square of a width, as stored.
fn least_weights(model: &GamlpConfig) -> u128 {
    let square = |width: usize, scopes: [SparseScope; 2]| {
        let sparse = model.mode == WeightMode::Sparse && scopes.contains(&model.scope);
        match sparse {
            true => model.sparse_nnz(width) as u128,
            false => (width as u128).pow(2),
        }
    };
    let hops = model.hops as u128 + 1;
    let hidden = hops * square(model.hidden, [SparseScope::Hidden, SparseScope::All]);
    let Some(width) = model.head else {
        return hidden;
    };
    let head = square(width, [SparseScope::Head, SparseScope::All]);
    hidden + head + width as u128 * model.hidden as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn synthetic(sizes: &str) -> GraphSource {
        GraphSource::Synthetic(sizes.parse().unwrap())
    }

    #[test]
    fn graphs_and_models_that_cannot_fit_are_named() {
        let small = GamlpConfig::new(100, 47);
        let message = |graph: &GraphSource, model: &GamlpConfig| {
            check(graph, Some((model, Use::Training)), 24 * GB)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message(&synthetic("2000000,10,1000000,3"), &small),
            "a graph of these --synthetic sizes takes at least 8,000,016 MB, but the machine has \
             24,000 MB"
        );
        assert!(message(&synthetic("1000,2147483647,4,3"), &small).contains("34,359 MB"));
        let wide = small.clone().with_head(Some(65536));
        assert!(
            message(&GraphSource::Shipped, &wide).starts_with("training a model of this --head")
        );
        let most = synthetic(&format!("{0},{0},1048576,3", i32::MAX));
        assert!(message(&most, &small).contains("--synthetic"));
    }

    #[test]
    fn what_fits_is_left_alone() {
        let sparse = GamlpConfig::new(100, 47)
            .with_head(Some(65536))
            .with_mode(WeightMode::Sparse)
            .with_sparsity(0.99);
        assert!(
            check(
                &synthetic("products"),
                Some((&sparse, Use::Training)),
                24 * GB
            )
            .is_ok()
        );
        let dense = GamlpConfig::new(100, 47).with_head(Some(65536));
        assert!(
            check(
                &GraphSource::Shipped,
                Some((&dense, Use::Inference)),
                24 * GB
            )
            .is_ok()
        );
        // A device has memory of its own.
        assert!(check(&GraphSource::Shipped, None, 1).is_ok());
        let published = GamlpConfig::products();
        assert!(least_weights(&published) < 3_335_831);
        let head = least_weights(&published.with_head(Some(5000)));
        assert!((28_000_000..31_000_000).contains(&head), "{head}");
    }
}
