//! Cora in the layout of the Open Graph Benchmark, where the sample data is there.

use crate::support::{device, finish, random_stream, sample};
use clap::Parser;
use gamlp::{
    Adjacency, Args, FeatureMatrix, GraphData, GraphFolder, LabelSeeds, Outcome, Propagator,
    ReadOptions, ReliableSet,
};

fn cora() -> Option<GraphData> {
    let folder = sample("graph/cora")?;
    let folder = GraphFolder::open(&folder, ReadOptions::default()).unwrap();
    Some(folder.read().unwrap())
}

/// Sum and sum of squares of all numbers.
fn sums(matrix: &FeatureMatrix) -> [f64; 2] {
    let values = || matrix.values.iter().map(|&x| f64::from(x));
    [values().sum(), values().map(|x| x * x).sum()]
}

#[track_caller]
fn assert_sums(matrix: &FeatureMatrix, expected: [f64; 2]) {
    for (found, expected) in sums(matrix).into_iter().zip(expected) {
        assert!(
            (found / expected - 1.0).abs() < 1e-6,
            "{found}, expected {expected}"
        );
    }
}

#[test]
fn sizes_classes_and_split_are_those_published() {
    let Some(data) = cora() else {
        return;
    };
    assert_eq!(
        (data.nodes(), data.edges.len(), data.features.width),
        (2708, 5278, 1433)
    );
    let mut counts = [0; 7];
    for node in 0..2708 {
        counts[data.labels.get(node).unwrap() as usize] += 1;
    }
    assert_eq!(counts, [351, 217, 418, 818, 426, 298, 180]);
    assert_eq!(data.split.train, (0..140).collect::<Vec<u32>>());
    assert_eq!(data.split.valid, (140..640).collect::<Vec<u32>>());
    assert_eq!(data.split.test.len(), 1000);
    assert_eq!(data.split.test[0], 2692);
    assert!(data.features.values.iter().all(|&x| x == 0.0 || x == 1.0));
}

/// The numbers were computed in double precision by other code.
#[test]
fn propagation_gives_the_known_sums() {
    let Some(data) = cora() else {
        return;
    };
    let propagator = Propagator::new(&Adjacency::new(&data).unwrap(), &device());
    assert_sums(&data.features, [49216.0, 49216.0]);
    let expected = [
        [49295.473, 25224.69],
        [49200.078, 14046.56],
        [49253.641, 12624.74],
        [49220.484, 10184.44],
        [49239.133, 9681.42],
    ];
    for (hop, expected) in propagator.hops(&data.features, 5).iter().zip(expected) {
        assert_sums(hop, expected);
    }
    let seeds = LabelSeeds::new(&data, &ReliableSet::default());
    assert_sums(&seeds.embed(&propagator, 9), [160.7071, 16.745653]);
}

/// The published network reaches 0.74 to 0.76 with these options.
#[test]
fn a_network_with_sparse_hidden_matrices_learns() {
    let Some(folder) = sample("graph/cora") else {
        return;
    };
    let _stream = random_stream();
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "gamlp_dst --quiet --head 0 --sparsity 0.9 --hidden 64 --hops 5 --label-hops 9",
        "--input-dropout 0.2 --learning-rate 0.01 --weight-decay 0.0005 --epochs 60",
        "--eval-every 5 --checkpoint-every 0 --batch 140",
    ]
    .join(" ");
    let args = Args {
        out: Some(dir.path().join("run")),
        device: cfg!(feature = "flex").then_some(gamlp::DeviceChoice::Flex),
        graph: gamlp::GraphArgs {
            data: Some(folder),
            cache: Some(dir.path().join("cache")),
            ..Default::default()
        },
        ..Args::parse_from(args.split(' '))
    };
    let Outcome::Finished { summary, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    let best = summary.best[0].accuracy;
    assert!(best.test.unwrap() > 0.7, "{best:?}");
}
