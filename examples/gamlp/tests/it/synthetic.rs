use gamlp::{EdgeRule, GraphData, GraphFolder, ReadOptions, SyntheticGraph, SyntheticSize};
use std::path::Path;

fn graph() -> GraphData {
    SyntheticGraph::small().generate().unwrap()
}

#[test]
fn sizes_are_as_asked_for() {
    let data = graph();
    assert_eq!((data.nodes(), data.edges.len()), (600, 2400));
    assert_eq!(data.rule, EdgeRule::AddReverse);
    assert_eq!(data.features.values.len(), 600 * 16);
    assert_eq!(data.labels.classes(), 5);
    let split = &data.split;
    assert_eq!(
        [split.train.len(), split.valid.len(), split.test.len()],
        [120, 120, 360]
    );
    let mut all = [&split.train[..], &split.valid, &split.test].concat();
    all.sort_unstable();
    assert_eq!(all, (0..600).collect::<Vec<u32>>());
    assert!(data.edges.as_flattened().iter().all(|&node| node < 600));
}

/// The numbers of ogbn-products as published; the splits are shares of four digits here.
#[test]
fn the_sizes_of_products_are_those_published() {
    let graph = SyntheticGraph::products();
    assert_eq!(
        (graph.nodes, graph.edges, graph.features, graph.classes),
        (2_449_029, 61_859_140, 100, 47)
    );
    for (share, published) in [(graph.train, 196_615.0), (graph.valid, 39_323.0)] {
        let nodes = share * graph.nodes as f64;
        assert!((nodes / published - 1.0).abs() < 0.005, "{nodes}");
    }
    let size: SyntheticSize = "products".parse().unwrap();
    assert_eq!(size.graph(), graph);
}

#[test]
fn the_seed_decides() {
    assert_eq!(graph(), graph());
    let mut other = SyntheticGraph::small();
    other.seed = 1;
    assert_ne!(other.generate().unwrap(), graph());
    let one_thread = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    let mut large = SyntheticGraph::small();
    (large.nodes, large.edges) = (70_000, 140_000);
    let expected = large.generate().unwrap();
    assert_eq!(one_thread.install(|| large.generate().unwrap()), expected);
}

#[test]
fn most_edges_stay_in_their_community() {
    let data = graph();
    let inside = data.edges.iter().filter(|edge| {
        let [source, target] = edge.map(|node| data.labels.get(node));
        source == target
    });
    let share = inside.count() as f64 / data.edges.len() as f64;
    assert!((0.8..0.9).contains(&share), "{share}");
}

/// Of nodes that lie in one community almost all neighbours are of their label, of those between two about half.
#[test]
fn nodes_between_communities_have_edges_to_both() {
    let mut graph = SyntheticGraph::small();
    (graph.nodes, graph.edges, graph.homophily) = (20_000, 200_000, 1.0);
    let clean = graph.generate().unwrap();
    graph.overlap = 0.5;
    let mixed = graph.generate().unwrap();
    assert_eq!(mixed.labels, clean.labels);
    assert_eq!(mixed.split, clean.split);
    assert_ne!(mixed.features, clean.features);
    let inside = |data: &GraphData| {
        let edges = data.edges.iter();
        let inside = edges.filter(|[a, b]| data.labels.get(*a) == data.labels.get(*b));
        inside.count() as f64 / data.edges.len() as f64
    };
    assert_eq!(inside(&clean), 1.0);
    // A quarter of either end lies elsewhere, and the second community is often the first again.
    assert!((0.55..0.8).contains(&inside(&mixed)), "{}", inside(&mixed));
}

#[test]
fn some_nodes_have_many_edges() {
    let data = graph();
    let mut degrees = data.in_degrees();
    degrees.sort_unstable();
    assert_eq!(degrees.iter().sum::<u32>(), 4800);
    assert!(
        degrees[599] > 5 * degrees[300],
        "{} and {}",
        degrees[599],
        degrees[300]
    );
}

/// A node is nearer to the centre of its community than to others more often than by chance.
#[test]
fn features_tell_the_community() {
    let data = graph();
    let width = data.features.width;
    let mut centres = vec![vec![0.0; width]; 5];
    let mut counts = [0.0; 5];
    for node in 0..600 {
        let label = data.labels.get(node).unwrap() as usize;
        counts[label] += 1.0;
        for (sum, x) in centres[label]
            .iter_mut()
            .zip(data.features.row(node as usize))
        {
            *sum += x;
        }
    }
    let nearest = |row: &[f32]| {
        let distance = |label: usize| -> f32 {
            let centre = centres[label].iter().map(|sum| sum / counts[label]);
            centre.zip(row).map(|(c, x)| (c - x).powi(2)).sum()
        };
        (0..5)
            .min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
            .unwrap()
    };
    let right = (0..600).filter(|&node| {
        Some(nearest(data.features.row(node as usize)) as u32) == data.labels.get(node)
    });
    let right = right.count();
    assert!((300..600).contains(&right), "{right} of 600");
}

#[test]
fn sizes_that_make_no_graph_are_named() {
    type Change = fn(&mut SyntheticGraph);
    let cases: [(Change, &str); 7] = [
        (
            |g| g.nodes = 2,
            "the number of nodes is 2, but must be between 3 and 2147483647",
        ),
        (
            |g| g.features = 0,
            "the number of features is 0, but must be between 1 and 1048576",
        ),
        (
            |g| g.classes = 601,
            "the number of classes is 601, but must be between 1 and 600",
        ),
        (
            |g| g.homophily = 1.5,
            "the homophily is 1.5, but must be between 0 and 1",
        ),
        (
            |g| g.overlap = 0.6,
            "the overlap is 0.6, but must be between 0 and 0.5",
        ),
        (
            |g| g.signal = f64::NAN,
            "the signal is NaN, but must be finite",
        ),
        (
            |g| g.train = 0.9,
            "the shares of training and validation is 0.9 and 0.2, but must be such that no part \
             of the nodes is empty",
        ),
    ];
    for (change, expected) in cases {
        let mut graph = SyntheticGraph::small();
        change(&mut graph);
        assert_eq!(graph.generate().unwrap_err().to_string(), expected);
    }
}

/// Features go through functions of the platform, whose last digit may differ.
#[test]
fn the_graph_that_ships_with_the_example_is_the_small_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/communities");
    let mut found = GraphFolder::open(&folder, ReadOptions::default())
        .unwrap()
        .read()
        .unwrap();
    let expected = graph();
    let pairs = found.features.values.iter().zip(&expected.features.values);
    assert!(pairs.clone().count() > 0);
    for (a, b) in pairs {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
    found.features = expected.features.clone();
    assert_eq!(found, expected);
}
