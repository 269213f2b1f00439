use crate::{
    folder::Files,
    support::{device, doubles},
};
use burn::tensor::{Tensor, TensorData};
use gamlp::{
    Adjacency, EdgeRule, FeatureMatrix, GraphData, LabelSeeds, Propagator, ReadOptions,
    ReliableSet, SyntheticGraph,
};
use std::ops::ControlFlow;

/// The mean over incoming edges, one edge at a time, in double precision.
fn mean_hop(data: &GraphData, features: &[f64], width: usize) -> Vec<f64> {
    let mut sums = vec![0.0; features.len()];
    let mut degrees = vec![0.0; data.nodes()];
    let mut add = |source: u32, target: u32| {
        degrees[target as usize] += 1.0;
        for j in 0..width {
            sums[target as usize * width + j] += features[source as usize * width + j];
        }
    };
    for &[source, target] in &data.edges {
        add(source, target);
        if data.rule == EdgeRule::AddReverse {
            add(target, source);
        }
    }
    for (row, degree) in sums.chunks_mut(width).zip(degrees) {
        row.iter_mut().for_each(|x| *x /= f64::max(degree, 1.0));
    }
    sums
}

fn assert_near(found: &FeatureMatrix, expected: &[f64]) {
    assert_eq!(found.values.len(), expected.len());
    for (index, (&a, b)) in found.values.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(a) - b).abs() < 1e-5,
            "{index}: {a}, expected {b}"
        );
    }
}

fn random_graph(rule: EdgeRule) -> GraphData {
    let mut data = SyntheticGraph::small().generate().unwrap();
    data.rule = rule;
    // Repeated edges, one from a node to itself, and an isolated node.
    let again = data.edges[..50].to_vec();
    data.edges.extend(again);
    data.edges.push([7, 7]);
    data.edges.retain(|edge| !edge.contains(&11));
    data
}

#[test]
fn hops_are_means_over_neighbours() {
    for rule in [EdgeRule::AddReverse, EdgeRule::AsStored] {
        let data = random_graph(rule);
        let adjacency = Adjacency::new(&data).unwrap();
        let hops = Propagator::new(&adjacency, &device()).hops(&data.features, 5);
        assert_eq!(hops.len(), 5);
        let mut expected = doubles(&data.features.values);
        for hop in &hops {
            expected = mean_hop(&data, &expected, data.features.width);
            assert_near(hop, &expected);
            assert_eq!(hop.row(11), [0.0; 16]);
        }
        assert!(expected.iter().any(|x| x.abs() > 0.01));
    }
}

#[test]
fn a_break_ends_the_propagation() {
    let data = random_graph(EdgeRule::AddReverse);
    let adjacency = Adjacency::new(&data).unwrap();
    let propagator = Propagator::new(&adjacency, &device());
    let (features, count) = (&data.features, 3);
    let mut zeros = vec![vec![0.0; features.values.len()]; count];
    let mut hops: Vec<_> = zeros.iter_mut().map(|hop| &mut hop[..]).collect();
    let mut products = 0;
    let mut done = || {
        products += 1;
        match products {
            2 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    };
    let width = features.width;
    let ended = propagator.hops_into(&features.values, width, &mut hops, &mut done);
    assert!(ended.is_break());
    assert_eq!(products, 2);
    let reached = zeros.iter().map(|hop| hop.iter().any(|&x| x != 0.0));
    assert_eq!(reached.collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn blocks_of_columns_change_nothing() {
    let data = random_graph(EdgeRule::AddReverse);
    let adjacency = Adjacency::new(&data).unwrap();
    let whole = Propagator::new(&adjacency, &device());
    let expected = whole.hops(&data.features, 3);
    for numbers in [1, 600 * 5, 600 * 15] {
        let blocks = whole.clone().with_block(numbers);
        for (found, expected) in blocks.hops(&data.features, 3).iter().zip(&expected) {
            assert_near(found, &doubles(&expected.values));
        }
        assert_eq!(blocks.last_hop(&data.features, 0), data.features);
    }
    assert_eq!(whole.hops(&data.features, 0), []);
}

#[test]
fn rows_hold_different_edges_and_how_often_they_occur() {
    let folder = Files::new().write();
    let data = folder.read().unwrap();
    let adjacency = Adjacency::new(&data).unwrap();
    let rows = |adjacency: &Adjacency| -> Vec<Vec<u32>> {
        let pattern = adjacency.pattern();
        (0..5).map(|node| pattern.row(node).to_vec()).collect()
    };
    assert_eq!(adjacency.nodes(), 5);
    assert_eq!(
        rows(&adjacency),
        [vec![1], vec![0, 2], vec![1, 3], vec![2], vec![]]
    );
    assert_eq!(adjacency.counts(), [2, 2, 1, 1, 1, 1]);
    let third = 1.0 / 3.0;
    assert_eq!(
        adjacency.row_means(),
        [1.0, 2.0 * third, third, 0.5, 0.5, 1.0]
    );

    let options = ReadOptions {
        rule: EdgeRule::AsStored,
        ..ReadOptions::default()
    };
    let stored = Adjacency::new(&folder.read_with(options).unwrap()).unwrap();
    assert_eq!(rows(&stored), [vec![], vec![0], vec![1], vec![2], vec![]]);
    assert_eq!(stored.counts(), [2, 1, 1]);
}

/// With its reverse an edge from a node to itself counts twice, like any other.
#[test]
fn an_edge_from_a_node_to_itself_is_an_edge() {
    let data = Files::new()
        .with("raw/edge", "0,0\n0,1\n0,1\n0,1\n")
        .write()
        .read()
        .unwrap();
    let adjacency = Adjacency::new(&data).unwrap();
    assert_eq!(adjacency.pattern().row(0), [0, 1]);
    assert_eq!(adjacency.row_means()[..2], [0.4, 0.6]);
}

#[test]
fn a_tensor_is_propagated_on_its_device() {
    let data = Files::new().write().read().unwrap();
    let adjacency = Adjacency::new(&data).unwrap();
    let x = TensorData::new(data.features.values.clone(), [5, 2]);
    let propagator = Propagator::new(&adjacency, &device());
    assert_eq!(propagator.matrix().nnz(), 6);
    let found = propagator.forward(Tensor::from_data(x, &device()));
    let found = FeatureMatrix {
        width: 2,
        values: found.into_data().iter::<f32>().collect(),
    };
    assert_near(&found, &mean_hop(&data, &doubles(&data.features.values), 2));
}

#[test]
#[should_panic(expected = "the graph has 5 nodes of 2 features each")]
fn features_of_other_nodes_are_refused() {
    let data = Files::new().write().read().unwrap();
    let adjacency = Adjacency::new(&data).unwrap();
    let features = FeatureMatrix {
        width: 2,
        values: vec![0.0; 8],
    };
    Propagator::new(&adjacency, &device()).hops(&features, 1);
}

#[test]
fn label_embeddings_spread_the_labels_of_training_nodes() {
    let data = random_graph(EdgeRule::AddReverse);
    let classes = data.labels.classes();
    let seeds = LabelSeeds::new(&data, &ReliableSet::default());
    let total: f32 = seeds.matrix().values.iter().sum();
    assert_eq!(total, data.split.train.len() as f32);
    for &node in &data.split.train {
        let label = data.labels.get(node).unwrap() as usize;
        assert_eq!(seeds.matrix().row(node as usize)[label], 1.0);
    }
    let propagator = Propagator::new(&Adjacency::new(&data).unwrap(), &device());
    let found = seeds.embed(&propagator, 9);
    let mut expected = doubles(&seeds.matrix().values);
    for _ in 0..9 {
        expected = mean_hop(&data, &expected, classes);
    }
    assert_near(&found, &expected);
}

#[test]
fn reliable_nodes_are_certain_and_give_their_probabilities() {
    let data = Files::new().write().read().unwrap();
    let logits = FeatureMatrix {
        width: 3,
        values: [
            [9.0, 0.0, 0.0],
            [0.0, 3.0, 0.0],
            [0.0; 3],
            [0.0; 3],
            [200.0, 0.0, -200.0],
        ]
        .concat(),
    };
    let select =
        |threshold, temperature| ReliableSet::select(&logits, [4, 1, 3], threshold, temperature);
    let e3 = 3_f32.exp();
    let certain = select(0.85, 1.0);
    assert_eq!(certain.nodes, [4, 1]);
    assert_eq!(certain.probabilities.row(0), [1.0, 0.0, 0.0]);
    assert!((certain.probabilities.row(1)[1] - e3 / (e3 + 2.0)).abs() < 1e-6);
    // A higher temperature makes probabilities equal.
    assert_eq!(select(0.85, 3.0).nodes, [4]);
    assert_eq!(select(0.3, 1.0).nodes, [4, 1, 3]);

    let seeds = LabelSeeds::new(&data, &certain);
    assert_eq!(seeds.matrix().row(0), [1.0, 0.0, 0.0]);
    assert_eq!(seeds.matrix().row(1), certain.probabilities.row(1));
    assert_eq!(seeds.matrix().row(2), [0.0, 1.0, 0.0]);
    assert_eq!(seeds.matrix().row(3), [0.0; 3]);
    assert_eq!(seeds.matrix().row(4), [1.0, 0.0, 0.0]);
}
