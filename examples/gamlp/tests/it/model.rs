use crate::{
    reference::{Matrix, Phase, Reference},
    support::{Array, Weights, device, distance, doubles, random_stream},
};
use burn::tensor::{Device, Tensor, TensorData};
use gamlp::{Gamlp, GamlpConfig, ScoreActivation, SparseScope, WeightMode};

/// Numbers in `(-0.5, 0.5)` that depend on a name.
fn numbers(name: &str, count: usize) -> Vec<f32> {
    let start: usize = name.bytes().map(usize::from).sum();
    let value = |i: usize| ((i * 389 + start * 71) % 997) as f32 / 997.0 - 0.5;
    (0..count).map(value).collect()
}

/// Weights for every layer of `config`, under the published names.
fn weights(config: &GamlpConfig) -> Weights {
    let mut found = Weights::default();
    let mut put = |name: String, shape: &[usize]| {
        let mut values = numbers(&name, shape.iter().product());
        if name.ends_with("running_var") {
            values.iter_mut().for_each(|value| *value += 1.0);
        }
        let shape = shape.to_vec();
        found.0.insert(name, Array { shape, values });
    };
    let norm = |put: &mut dyn FnMut(String, &[usize]), name: String, width: usize| {
        for part in ["weight", "bias", "running_mean", "running_var"] {
            put(format!("{name}.{part}"), &[width]);
        }
    };
    let mut network = |name: String, widths: &[usize], norms: bool| {
        for (i, pair) in widths.windows(2).enumerate() {
            put(format!("{name}.layers.{i}.weight"), &[pair[1], pair[0]]);
            put(format!("{name}.layers.{i}.bias"), &[pair[1]]);
            if norms && i + 2 < widths.len() {
                norm(&mut put, format!("{name}.bns.{i}"), pair[1]);
            }
        }
        put(format!("{name}.prelu.weight"), &[1]);
    };
    let (features, hidden, classes) = (config.features, config.hidden, config.classes);
    if config.pre_process {
        for k in 0..=config.hops {
            network(
                format!("process.{k}"),
                &[features, hidden, hidden],
                config.batch_norm,
            );
        }
    }
    let mut widths = vec![hidden; config.label_layers + 1];
    (widths[0], widths[config.label_layers]) = (classes, classes);
    network("label_fc".into(), &widths, true);
    for i in 0..config.output_layers {
        let input = if i == 0 { config.hop_width() } else { hidden };
        let last = i + 1 == config.output_layers;
        let output = if last { classes } else { hidden };
        let name = format!("lr_output.layers.{i}");
        put(format!("{name}.weight"), &[input, output]);
        norm(&mut put, format!("{name}.bias"), output);
    }
    put("lr_output.prelu.weight".into(), &[1]);
    put("lr_att.weight".into(), &[1, 2 * config.hop_width()]);
    put("lr_att.bias".into(), &[1]);
    put("res_fc.weight".into(), &[hidden, features]);
    put("res_fc.bias".into(), &[hidden]);
    put("prelu.weight".into(), &[1]);
    found
}

fn tiny() -> GamlpConfig {
    GamlpConfig::new(5, 3)
        .with_hidden(6)
        .with_hops(2)
        .with_output_layers(3)
        .with_label_layers(3)
        .with_alpha(0.3)
        .with_dropout(0.0)
        .with_attention_dropout(0.0)
        .with_label_dropout(0.0)
}

const BATCH: usize = 7;

fn inputs(config: &GamlpConfig, device: &Device) -> (Tensor<3>, Tensor<2>) {
    let tensor = |name: &str, width: usize| {
        let values = numbers(name, BATCH * width);
        Tensor::from_data(TensorData::new(values, [BATCH, width]), device)
    };
    let hops = (0..=config.hops)
        .map(|k| tensor(&format!("hop {k}"), config.features))
        .collect();
    (Tensor::stack(hops, 1), tensor("labels", config.classes))
}

fn host(x: &Tensor<2>) -> Matrix {
    let values: Vec<f32> = x.to_data().iter::<f32>().collect();
    Matrix::new(x.dims()[1], doubles(&values))
}

fn logits(model: &Gamlp, config: &GamlpConfig, device: &Device) -> Tensor<2> {
    let (hops, labels) = inputs(config, device);
    model.forward(hops, labels)
}

#[test]
fn the_published_setting_has_3_335_831_parameters() {
    let model = GamlpConfig::products().init(0, &device());
    assert_eq!(model.trainable_parameters(), 3_335_831);
    let small = GamlpConfig::products()
        .with_output_layers(2)
        .with_label_layers(2);
    assert_eq!(small.init(0, &device()).trainable_parameters(), 2_282_135);
}

#[test]
fn every_variant_equals_double_precision() {
    let variants = [
        tiny(),
        tiny().with_output_layers(1).with_label_layers(1),
        tiny()
            .with_output_layers(2)
            .with_label_layers(2)
            .with_batch_norm(false),
        tiny()
            .with_output_layers(5)
            .with_activation(ScoreActivation::Relu),
        tiny()
            .with_residual(false)
            .with_activation(ScoreActivation::Sigmoid),
        tiny().with_pre_process(false).with_residual(false),
        tiny().with_pre_process(false).with_hidden(5),
        // Square layers in all places.
        tiny().with_hidden(3),
        tiny().with_hops(0),
    ];
    for config in variants {
        let weights = weights(&config);
        let phases = [
            (device(), Phase::Evaluation),
            (device().autodiff(), Phase::Training),
        ];
        for (device, phase) in phases {
            let model = weights.load(&config, &device);
            let (hops, labels) = inputs(&config, &device);
            let found = model.forward(hops.clone(), labels.clone());
            let reference = Reference {
                config: &config,
                weights: &weights,
                phase,
            };
            let hops = hops.iter_dim(1).map(|hop| host(&hop.squeeze_dim(1)));
            let hops: Vec<_> = hops.collect();
            let expected = reference.logits(&hops, &host(&labels));
            let far = distance(&found, &expected.values);
            assert!(far < 1e-5, "{config:?}, {phase:?}: {far:e}");
        }
    }
}

#[test]
fn a_sparse_head_computes_what_a_masked_one_does() {
    let config = tiny()
        .with_head(Some(40))
        .with_sparsity(0.9)
        .with_mode(WeightMode::Sparse);
    let device = device();
    let sparse = config.init(3, &device);
    assert_eq!(sparse.sparsifiable().last().unwrap().stored(), 160);
    let masked_config = config.clone().with_mode(WeightMode::Masked);
    let masked = masked_config.init(3, &device);
    assert_eq!(masked.sparsifiable().last().unwrap().stored(), 1600);

    let [a, b] = [(&sparse, &config), (&masked, &masked_config)]
        .map(|(model, config)| logits(model, config, &device));
    let b: Vec<f64> = b.to_data().iter::<f64>().collect();
    assert!(distance(&a, &b) < 1e-5);
    assert!(b.iter().any(|x| x.abs() > 1e-3));
}

#[test]
fn the_scope_says_which_matrices_are_sparse() {
    let config = tiny().with_mode(WeightMode::Sparse).with_sparsity(0.5);
    let stored = |config: GamlpConfig| -> Vec<usize> {
        let model = config.init(0, &device());
        model.sparsifiable().iter().map(|p| p.stored()).collect()
    };
    // Three hop transforms, where they are governed, then the first and the middle layer of the output network.
    assert_eq!(stored(config.clone().with_mode(WeightMode::Dense)), [36; 2]);
    assert_eq!(
        stored(config.clone().with_scope(SparseScope::Hidden)),
        [18; 5]
    );
    let head = config.with_head(Some(10));
    assert_eq!(stored(head.clone()), [50]);
    assert_eq!(
        stored(head.clone().with_scope(SparseScope::Hidden)),
        [18, 18, 18, 100]
    );
    assert_eq!(stored(head.with_scope(SparseScope::All)), [18, 18, 18, 50]);
}

#[test]
fn gradients_reach_every_connection_of_a_sparse_head() {
    let config = tiny()
        .with_head(Some(20))
        .with_sparsity(0.8)
        .with_mode(WeightMode::Sparse);
    let device = device().autodiff();
    let model = config.init(1, &device);
    let grads = logits(&model, &config, &device)
        .powf_scalar(2.0)
        .sum()
        .backward();
    let [.., gamlp::Projection::Sparse(layer)] = model.sparsifiable()[..] else {
        panic!("the head is sparse");
    };
    let grad = layer.values.grad(&grads).unwrap();
    assert_eq!(grad.dims(), [80]);
    assert!(grad.abs().sum().into_scalar::<f32>() > 0.0);
}

#[test]
fn dropout_acts_in_training_only() {
    let _stream = random_stream();
    let hidden = tiny()
        .with_dropout(0.5)
        .with_input_dropout(0.2)
        .with_pre_dropout(true);
    for config in [hidden, tiny().with_attention_dropout(0.5)] {
        let device = device();
        let model = config.init(1, &device);
        let [a, b] = [0, 1].map(|_| logits(&model, &config, &device).into_data());
        assert_eq!(a, b);
        let device = device.autodiff();
        let model = config.init(1, &device);
        let [a, b] = [0, 1].map(|_| logits(&model, &config, &device).into_data());
        assert_ne!(a, b);
    }
}

#[test]
#[should_panic(expected = "got 2 hops, but there are 3 networks")]
fn another_number_of_hops_is_refused() {
    let config = tiny();
    let (hops, labels) = inputs(&config, &device());
    config
        .init(0, &device())
        .forward(hops.narrow(1, 0, 2), labels);
}

#[test]
#[should_panic(expected = "a training batch needs at least two rows, got 1")]
fn a_training_batch_of_one_is_refused() {
    let config = tiny();
    let device = device().autodiff();
    let (hops, labels) = inputs(&config, &device);
    config
        .init(0, &device)
        .forward(hops.narrow(0, 0, 1), labels.narrow(0, 0, 1));
}

#[test]
fn the_head_of_the_paper_is_5000_wide() {
    let config = GamlpConfig::products()
        .with_head(Some(5000))
        .with_mode(WeightMode::Sparse)
        .with_sparsity(0.99);
    let device = device();
    let model = config.init(0, &device);
    let without_output = 3_335_831 - 813_663;
    let head = 513 * 5000 + 250_000 + 5000 + 2 * 5000 + 5001 * 47 + 1;
    assert_eq!(model.trainable_parameters(), without_output + head);
    let hops = Tensor::ones([1, 6, 100], &device);
    let logits = model.forward(hops, Tensor::zeros([1, 47], &device));
    assert_eq!(logits.dims(), [1, 47]);
    assert!(logits.to_data().iter::<f32>().all(f32::is_finite));
}
