/// Expected shares of functional connections in a chain of layers with random coordinates.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedReachability {
    /// Share of every layer.
    pub layers: Vec<f64>,
    /// Share of all connections together.
    pub network: f64,
}

/// The shares of functional connections to expect if every connection of layer `l` exists with
/// probability `d_l`, independently.
///
/// With `F_0 = n_0`, the inputs of the network reach `F_{l+1} = n_{l+1} (1 - (1 - d_l)^{F_l})`
/// features, and likewise backwards `B_l` from the outputs; the share of layer `l` is
/// `F_l B_{l+1} / (n_l n_{l+1})`. This says before any training how sparse a network can be: a
/// narrow sparse layer at the end is the first thing that cuts paths.
///
/// # Arguments
///
/// * `widths` - number of features in front of every layer and behind the last, `[layers + 1]`.
/// * `densities` - density of every layer, `[layers]`.
///
/// # Panics
///
/// Panics if there is not one more width than densities.
pub fn expected_reachability(widths: &[usize], densities: &[f64]) -> ExpectedReachability {
    assert_eq!(
        widths.len(),
        densities.len() + 1,
        "expected one more width than densities"
    );
    let forward = shares(widths.iter(), densities.iter());
    let mut backward = shares(widths.iter().rev(), densities.iter().rev());
    backward.reverse();
    let ends = forward.iter().zip(&backward[1..]);
    let layers: Vec<f64> = ends.map(|(inputs, outputs)| inputs * outputs).collect();
    let connections = |layer: usize| densities[layer] * (widths[layer] * widths[layer + 1]) as f64;
    let all: f64 = (0..densities.len()).map(connections).sum();
    let functional: f64 = layers
        .iter()
        .enumerate()
        .map(|(layer, share)| share * connections(layer))
        .sum();
    ExpectedReachability {
        layers,
        network: if all > 0.0 { functional / all } else { 1.0 },
    }
}

/// Share of the features of every width that are reached from the first.
fn shares<'a>(
    widths: impl Iterator<Item = &'a usize>,
    densities: impl Iterator<Item = &'a f64>,
) -> Vec<f64> {
    let mut share = 1.0;
    let mut shares = vec![share];
    for (&width, &density) in widths.zip(densities) {
        share = 1.0 - (1.0 - density).powf(share * width as f64);
        shares.push(share);
    }
    shares
}
