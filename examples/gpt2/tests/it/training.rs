//! Options of training that must not change what is learnt, and methods that must run.

use crate::support::{device, finish, load, log_lines, tiny};
use gpt2::{Args, MlpMode, Precision, TrainOptions, Trainer};
use snack_burn::dst::Preset;

/// Losses of the first steps.
fn losses(args: &Args, steps: usize) -> Vec<f64> {
    let options = args.options(TrainOptions::default());
    options.validate().unwrap();
    let corpus = load(&options.text);
    let mut trainer = Trainer::new(options, corpus, &device()).unwrap();
    let mut losses = Vec::new();
    for _ in 0..steps {
        trainer = trainer.step();
        losses.push(trainer.take_loss().unwrap());
    }
    losses
}

fn assert_close(text: &str, found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (step, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(
            difference <= tolerance,
            "{text}: loss {found} after {step} steps, expected {expected} +- {tolerance}"
        );
    }
}

fn static_run(dir: &std::path::Path) -> Args {
    Args {
        method: Some(Preset::Static),
        update_every: None,
        ..tiny(dir)
    }
}

#[test]
fn accumulated_passes_train_like_one_batch() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Args {
        batch: Some(8),
        ..static_run(dir.path())
    };
    let parts = Args {
        batch: Some(2),
        accumulate: Some(4),
        ..static_run(dir.path())
    };
    assert_close("4 x 2", &losses(&parts, 12), &losses(&whole, 12), 1e-5);
}

#[test]
fn gradients_that_are_too_long_are_scaled_down() {
    let dir = tempfile::tempdir().unwrap();
    let clipped = |clip| {
        let args = Args {
            clip,
            ..static_run(dir.path())
        };
        losses(&args, 12)
    };
    let free = clipped(None);
    assert_eq!(clipped(Some(1e6)), free);
    // AdamW divides by the size of the gradients, so that only their proportions over steps matter.
    let short = clipped(Some(0.5));
    assert_eq!(short[0], free[0]);
    assert_ne!(short, free);
    assert!(short[11] < short[0], "{short:?}");
}

#[test]
fn gradient_checkpointing_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let plain = tiny(dir.path());
    let checkpointing = Args {
        checkpointing: true,
        ..tiny(dir.path())
    };
    assert_eq!(losses(&checkpointing, 12), losses(&plain, 12));
}

#[test]
fn mixed_precision_stays_near_single_precision() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [MlpMode::Dense, MlpMode::Masked, MlpMode::Sparse] {
        let single = Args {
            mode: Some(mode),
            sparsity: (mode != MlpMode::Dense).then_some(0.8),
            ..static_run(dir.path())
        };
        let mixed = Args {
            precision: Some(Precision::Bf16),
            ..single.clone()
        };
        let text = format!("{mode} in bf16");
        assert_close(&text, &losses(&mixed, 12), &losses(&single, 12), 0.03);
    }
}

/// From one seed both have one pattern and the same values; what is left is the order of additions, which
/// 500 steps amplify to less than a thousandth of a nat.
#[test]
fn sparse_and_masked_layers_learn_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let run = |mode| Args {
        mode: Some(mode),
        steps: Some(500),
        ..static_run(dir.path())
    };
    let sparse = losses(&run(MlpMode::Sparse), 500);
    let masked = losses(&run(MlpMode::Masked), 500);
    assert_close("sparse", &sparse, &masked, 1e-3);
    assert!(
        sparse[499] < 0.6 * sparse[0],
        "{} {}",
        sparse[0],
        sparse[499]
    );
}

#[test]
fn every_preset_trains_and_keeps_its_connections() {
    for method in Preset::ALL {
        let dir = tempfile::tempdir().unwrap();
        let args = Args {
            method: Some(method),
            update_every: (method != Preset::Static).then_some(6),
            ..tiny(dir.path())
        };
        finish(&args).unwrap_or_else(|error| panic!("{method}: {error}"));
        let lines = log_lines(dir.path());
        let last = lines.last().unwrap();
        assert!(last.loss < 5.2, "{method}: {}", last.loss);
        let updates = lines.iter().filter(|line| line.update.is_some()).count();
        match method {
            Preset::Static => assert_eq!(updates, 0),
            _ => assert!(updates > 0, "{method} made no update"),
        }
        match method {
            // They end at another density.
            Preset::Dadp | Preset::Srigl => {}
            _ => assert!(
                (last.density - 0.2).abs() < 1e-2,
                "{method}: {}",
                last.density
            ),
        }
    }
}

#[test]
fn shares_that_a_method_has_no_use_for_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for method in [Preset::MestEm, Preset::MestEms, Preset::DeepR] {
        let args = Args {
            method: Some(method),
            drop_fraction: Some(0.2),
            ..tiny(dir.path())
        };
        let message = finish(&args).unwrap_err().to_string();
        assert!(message.contains("--drop-fraction is 0.2"), "{message}");
        assert!(message.contains(method.name()), "{message}");
    }
}

#[test]
fn a_run_leaves_pictures_and_replaces_those_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    std::fs::write(run.join("memory.svg"), "of another run").unwrap();
    finish(&Args {
        overwrite: true,
        ..tiny(dir.path())
    })
    .unwrap();
    for (picture, label) in [
        ("loss.svg", "nats per token"),
        ("perplexity.svg", "Held-out perplexity"),
        ("density.svg", "MLP weights that exist"),
    ] {
        let text = std::fs::read_to_string(run.join(picture)).unwrap();
        assert!(
            text.contains(label) && text.ends_with("</svg>\n"),
            "{picture}"
        );
    }
    // The host does not say how much it holds.
    assert!(!run.join("memory.svg").exists() || !cfg!(feature = "flex"));
}
