//! Pruning by magnitude on load.

use crate::{
    fixture::Fixture,
    support::{bits, device},
};
use burn::tensor::{Int, Tensor, Tolerance};
use gpt2::{
    Gpt2, Gpt2Error, LoadOptions, MagnitudePruning, MlpLinear, MlpMatrix, MlpMode, Pretrained,
    PruneScope, SaveOptions, WeightFormat, load_pretrained, save_pretrained,
};
use snack_burn::prelude::{Prune, SparseLinear};
use std::path::Path;

fn options(mode: MlpMode, sparsity: f64, scope: PruneScope) -> LoadOptions {
    LoadOptions {
        mode: Some(mode),
        pruning: Some(MagnitudePruning { sparsity, scope }),
        ..Default::default()
    }
}

fn load(dir: &Path, options: &LoadOptions) -> Result<Pretrained, Gpt2Error> {
    load_pretrained(dir, options, &device())
}

fn stored(model: &Gpt2) -> Vec<usize> {
    model.mlp_layers().map(MlpLinear::stored).collect()
}

/// Weights with many equal magnitudes.
fn with_ties() -> Fixture {
    let mut fixture = Fixture::new();
    for block in 0..2 {
        for (layer, shape) in [("c_fc", [4, 16]), ("c_proj", [16, 4])] {
            let name = format!("h.{block}.mlp.{layer}.weight");
            let coarse = |value: &f32| (value * 6.0).round() / 6.0;
            let values: Vec<f32> = fixture.values(&name).iter().map(coarse).collect();
            fixture.set(&name, &shape, &values);
        }
    }
    fixture
}

#[test]
fn each_layer_keeps_what_the_library_keeps() {
    let dir = tempfile::tempdir().unwrap();
    with_ties().write(dir.path());
    let dense = load(dir.path(), &LoadOptions::default()).unwrap().model;

    for sparsity in [0.0, 0.3, 0.5, 0.77, 0.98] {
        let options = options(MlpMode::Sparse, sparsity, PruneScope::Layer);
        let pretrained = load(dir.path(), &options).unwrap();
        assert_eq!(pretrained.config.model.sparsity, sparsity);
        assert_eq!(pretrained.config.model.mode, MlpMode::Sparse);
        for (ours, dense) in pretrained.model.mlp_layers().zip(dense.mlp_layers()) {
            let (MlpLinear::Sparse(ours), MlpLinear::Dense(dense)) = (ours, dense) else {
                panic!("the modes are those that were asked for");
            };
            let theirs = SparseLinear::from_linear(dense.clone(), Prune::magnitude(sparsity));
            assert_eq!(ours.pattern(), theirs.pattern(), "sparsity {sparsity}");
            assert_eq!(
                ours.values.val().into_data(),
                theirs.values.val().into_data()
            );
        }
    }
}

#[test]
fn all_layers_together_keep_the_exact_count() {
    let dir = tempfile::tempdir().unwrap();
    with_ties().write(dir.path());
    let matrices = MlpMatrix::of_model(&load(dir.path(), &LoadOptions::default()).unwrap().model);

    for (sparsity, kept) in [(0.5, 128), (0.9, 26), (0.99, 3)] {
        let options = options(MlpMode::Sparse, sparsity, PruneScope::Global);
        let model = load(dir.path(), &options).unwrap().model;
        let counts = stored(&model);
        assert_eq!(counts.iter().sum::<usize>(), kept, "{counts:?}");

        // No weight that went is larger than one that stayed.
        let mut smallest = f32::INFINITY;
        let mut largest_gone = 0.0f32;
        for (kept, dense) in MlpMatrix::of_model(&model).iter().zip(&matrices) {
            for (&kept, &dense) in kept.to_dense().iter().zip(dense.to_dense().iter()) {
                match kept == 0.0 {
                    true => largest_gone = largest_gone.max(dense.abs()),
                    false => smallest = smallest.min(kept.abs()),
                }
            }
        }
        assert!(largest_gone <= smallest, "{largest_gone} {smallest}");
    }
}

#[test]
fn equal_weights_stay_in_the_order_of_the_model() {
    let dir = tempfile::tempdir().unwrap();
    let mut fixture = Fixture::new();
    for block in 0..2 {
        fixture.set(&format!("h.{block}.mlp.c_fc.weight"), &[4, 16], &[1.0; 64]);
        fixture.set(
            &format!("h.{block}.mlp.c_proj.weight"),
            &[16, 4],
            &[-1.0; 64],
        );
    }
    fixture.write(dir.path());
    let options = options(MlpMode::Sparse, 1.0 - 70.0 / 256.0, PruneScope::Global);
    let model = load(dir.path(), &options).unwrap().model;

    assert_eq!(stored(&model), [64, 6, 0, 0]);
    let MlpLinear::Sparse(layer) = &model.h[0].mlp.c_proj else {
        panic!("the layer is not sparse");
    };
    let kept: Vec<u64> = layer.pattern().flats().collect();
    assert_eq!(kept, [0, 1, 2, 3, 4, 5]);

    // Layers without any weight compute their bias.
    let tokens = Tensor::<2, Int>::from_data([[1, 2, 3]], &device());
    assert_eq!(model.forward(tokens).dims(), [1, 3, 11]);
}

#[test]
fn masked_models_compute_what_sparse_ones_do() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let tokens = Tensor::<2, Int>::from_data([[1, 2, 3, 10, 0, 4]], &device());
    for scope in [PruneScope::Layer, PruneScope::Global] {
        let logits = |mode| {
            let pretrained = load(dir.path(), &options(mode, 0.7, scope)).unwrap();
            pretrained.model.forward(tokens.clone()).into_data()
        };
        logits(MlpMode::Masked)
            .assert_approx_eq::<f32>(&logits(MlpMode::Sparse), Tolerance::absolute(1e-6));
    }
}

#[test]
fn pruning_twice_is_pruning_once() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    let layerwise = |sparsity| options(MlpMode::Sparse, sparsity, PruneScope::Layer);
    let half = load(dir.path(), &layerwise(0.5)).unwrap();
    let to = dir.path().join("sparse");
    let save = SaveOptions {
        format: WeightFormat::Sparse,
        ..Default::default()
    };
    save_pretrained(&half.model, &half.config, &to, &save).unwrap();

    let twice = load(&to, &layerwise(0.75)).unwrap().model;
    let once = load(dir.path(), &layerwise(0.75)).unwrap().model;
    assert_eq!(bits(&twice), bits(&once));
    let message = load(&to, &layerwise(0.25)).unwrap_err().to_string();
    assert_eq!(
        message,
        "--sparsity is 0.25, but must be at least 0.5: only 32 weights of h.0.mlp.c_fc.weight exist"
    );
    let global = options(MlpMode::Sparse, 0.25, PruneScope::Global);
    let message = load(&to, &global).unwrap_err().to_string();
    assert!(
        message.ends_with("only 128 weights of the MLP matrices exist"),
        "{message}"
    );
}

#[test]
fn options_out_of_range_are_named() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::new().write(dir.path());
    for sparsity in [1.0, -0.1, f64::NAN, f64::INFINITY] {
        for scope in [PruneScope::Layer, PruneScope::Global] {
            let error = load(dir.path(), &options(MlpMode::Sparse, sparsity, scope)).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("--sparsity is {sparsity}, but must be at least 0 and below 1")
            );
        }
    }
    let error = load(
        dir.path(),
        &options(MlpMode::Sparse, 0.999, PruneScope::Layer),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("low enough to keep one of the 64 weights")
    );
    let error = load(dir.path(), &options(MlpMode::Dense, 0.5, PruneScope::Layer)).unwrap_err();
    assert!(error.to_string().contains("left out with --mode dense"));
}
