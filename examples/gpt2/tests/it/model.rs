use crate::support::{bits, device};
use burn::tensor::{Int, Tensor, TensorData, Tolerance};
use gpt2::{Gpt2Config, MlpLinear, MlpMode};

const MODES: [MlpMode; 3] = [MlpMode::Dense, MlpMode::Masked, MlpMode::Sparse];

fn tokens(rows: [[i32; 6]; 2]) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::from(rows), &device())
}

#[test]
fn logits_have_one_row_per_token() {
    for mode in MODES {
        let model = Gpt2Config::new(2, 16, 4, 8)
            .with_mode(mode)
            .with_vocabulary(50)
            .init(1, &device());
        let logits = model.forward(tokens([[1, 2, 3, 4, 5, 6], [49, 0, 7, 7, 7, 7]]));

        assert_eq!(logits.dims(), [2, 6, 50], "{mode}");
    }
}

#[test]
fn later_tokens_do_not_change_earlier_logits() {
    for mode in MODES {
        let model = Gpt2Config::new(2, 16, 4, 8)
            .with_mode(mode)
            .init(1, &device());
        let one = model.forward(tokens([[1, 2, 3, 4, 5, 6], [9, 8, 7, 6, 5, 4]]));
        let two = model.forward(tokens([[1, 2, 3, 4, 77, 6], [9, 8, 7, 6, 5, 77]]));

        let row = |logits: &Tensor<3>, row, len| {
            let part = logits.clone().narrow(0, row, 1).narrow(1, 0, len);
            part.into_data()
        };
        assert_eq!(row(&one, 0, 4), row(&two, 0, 4), "{mode}");
        assert_eq!(row(&one, 1, 5), row(&two, 1, 5), "{mode}");
        assert_ne!(row(&one, 0, 5), row(&two, 0, 5), "{mode}");
    }
}

#[test]
#[should_panic(expected = "got 6 tokens, but the context is 4")]
fn too_many_tokens_are_refused() {
    let model = Gpt2Config::new(1, 8, 1, 4).init(1, &device());
    model.forward(tokens([[0; 6]; 2]));
}

#[test]
fn the_parameter_count_is_what_the_model_has() {
    for mode in MODES {
        let config = Gpt2Config::new(2, 24, 3, 10).with_mode(mode);
        let model = config.init(1, &device());
        let stored: usize = bits(&model)
            .iter()
            .filter(|(path, _)| !path.ends_with("pattern"))
            .map(|(_, values)| values.len())
            .sum();

        let expected = match mode {
            MlpMode::Sparse => config.parameter_count(),
            MlpMode::Dense | MlpMode::Masked => config.dense_parameter_count(),
        };
        assert_eq!(stored, expected, "{mode}");
    }
}

#[test]
fn masked_and_sparse_models_of_one_seed_compute_the_same() {
    let config = Gpt2Config::new(2, 16, 4, 8);
    let logits = |mode| {
        let model = config.clone().with_mode(mode).init(3, &device());
        model.forward(tokens([[1, 2, 3, 4, 5, 6], [9, 8, 7, 6, 5, 4]]))
    };

    logits(MlpMode::Masked).into_data().assert_approx_eq::<f32>(
        &logits(MlpMode::Sparse).into_data(),
        Tolerance::absolute(1e-6),
    );
}

#[test]
fn initial_values_depend_on_the_seed_alone() {
    let config = Gpt2Config::new(1, 16, 4, 8);
    let values = |seed| bits(&config.init(seed, &device()));

    assert_eq!(values(3), values(3));
    assert_ne!(values(3), values(4));
}

#[test]
fn sparse_rows_start_with_the_variance_of_dense_ones() {
    let config = Gpt2Config::new(8, 128, 4, 8);
    let model = config.init(5, &device());
    let (MlpLinear::Sparse(fc), MlpLinear::Sparse(proj)) =
        (&model.h[0].mlp.c_fc, &model.h[0].mlp.c_proj)
    else {
        panic!("the default mode is sparse");
    };
    let energy = |values: &Tensor<1>, rows: usize| {
        let sum = values.clone().powi_scalar(2).sum().into_scalar::<f32>();
        f64::from(sum) / rows as f64
    };

    let std = 0.02;
    let expected = std * std * 128.0;
    assert!((energy(&fc.values.val(), 512) / expected - 1.0).abs() < 0.1);
    let expected = std * std / 16.0 * 512.0;
    assert!((energy(&proj.values.val(), 128) / expected - 1.0).abs() < 0.1);
}

#[test]
fn index_bytes_are_those_of_a_layer_that_has_trained() {
    let dir = tempfile::tempdir().unwrap();
    let options = crate::support::tiny(dir.path()).options(gpt2::TrainOptions::default());
    let corpus = crate::support::load(&options.text);
    let mut trainer = gpt2::Trainer::new(options, corpus, &crate::support::device()).unwrap();
    let bytes = |trainer: &gpt2::Trainer| -> Vec<usize> {
        let layers = trainer.model().mlp_layers();
        layers.map(gpt2::MlpLinear::index_bytes).collect()
    };
    let before = bytes(&trainer);
    trainer = trainer.step();

    let on_device: Vec<usize> = trainer
        .model()
        .mlp_layers()
        .map(|layer| match layer {
            gpt2::MlpLinear::Sparse(layer) => layer.pattern.index_bytes(),
            _ => 0,
        })
        .collect();
    assert_eq!(before, on_device);
    assert_eq!(bytes(&trainer), on_device);
}
