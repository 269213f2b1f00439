//! From a graph to predictions.

use crate::support::device;
use burn::{
    module::Module,
    nn::loss::CrossEntropyLossConfig,
    optim::{AdamConfig, GradientsParams},
    tensor::{Int, Tensor, TensorData},
};
use gamlp::{
    Adjacency, GamlpConfig, GraphData, LabelSeeds, NodeInputs, Propagator, ReliableSet,
    SyntheticGraph, WeightMode,
};

fn labels(data: &GraphData, nodes: &[u32]) -> Vec<i64> {
    let label = |&node| data.labels.get(node).unwrap().into();
    nodes.iter().map(label).collect()
}

fn inputs(data: &GraphData, hops: [usize; 2]) -> NodeInputs {
    let propagator = Propagator::new(&Adjacency::new(data).unwrap(), &device());
    let seeds = LabelSeeds::new(data, &ReliableSet::default());
    NodeInputs::new(data.features.clone(), &seeds, &propagator, hops)
}

#[test]
fn a_batch_holds_the_rows_of_its_nodes() {
    let data = SyntheticGraph::small().generate().unwrap();
    let inputs = inputs(&data, [2, 3]);
    assert_eq!(inputs.hops().len(), 3);
    assert_eq!(inputs.hops()[0].values(), data.features.values);
    let batch = inputs.batch(&[5, 599, 5], &device());
    for (tensor, matrix) in batch.hops.iter_dim(1).zip(inputs.hops()) {
        let found: Vec<f32> = tensor.to_data().iter::<f32>().collect();
        assert_eq!(
            found,
            [matrix.row(5), matrix.row(599), matrix.row(5)].concat()
        );
    }
    assert_eq!(batch.label_embedding.dims(), [3, 5]);
}

/// Labels of every node, and no others, are learned from those of a fifth of them.
#[test]
fn a_sparse_head_learns_communities() {
    let data = SyntheticGraph::small().generate().unwrap();
    let inputs = inputs(&data, [3, 4]);
    let config = GamlpConfig::new(16, 5)
        .with_hidden(16)
        .with_hops(3)
        .with_dropout(0.0)
        .with_attention_dropout(0.0)
        .with_label_dropout(0.0)
        .with_label_layers(2)
        .with_head(Some(64))
        .with_mode(WeightMode::Sparse);
    let device = device();
    let training = device.clone().autodiff();
    let mut model = config.init(1, &training);
    let mut optimizer = AdamConfig::new().init();
    let batch = inputs.batch(&data.split.train, &training);
    let targets = labels(&data, &data.split.train);
    let targets = TensorData::new(targets, [data.split.train.len()]);
    let targets = Tensor::<1, Int>::from_data(targets, &training);
    for _ in 0..40 {
        let logits = model.forward(batch.hops.clone(), batch.label_embedding.clone());
        let loss = CrossEntropyLossConfig::new().init(&training);
        let grads = loss.forward(logits, targets.clone()).backward();
        let grads = GradientsParams::from_grads(grads, &model);
        model = optimizer.step(0.01, model, grads);
    }

    let model = model.valid();
    let batch = inputs.batch(&data.split.test, &device);
    let found = model.forward(batch.hops, batch.label_embedding).argmax(1);
    let found = found.into_data();
    let expected = labels(&data, &data.split.test);
    let right = found.iter::<i64>().zip(&expected).filter(|(a, b)| a == *b);
    let accuracy = right.count() as f64 / expected.len() as f64;
    assert!(accuracy > 0.7, "{accuracy}");
}
