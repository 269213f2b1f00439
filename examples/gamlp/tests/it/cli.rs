//! Options and the errors about them.

use crate::support::{finish, tiny};
use clap::{CommandFactory, Parser};
use gamlp::{Args, DeviceChoice, GraphData, SyntheticGraph, TrainOptions, WeightMode};
use snack_burn::dst::Preset;
use std::{fs, path::Path};

fn message(args: &Args) -> String {
    finish(args).unwrap_err().to_string()
}

fn assert_untouched(dir: &Path) {
    assert!(!dir.join("run").exists(), "an error must not leave files");
}

#[test]
fn help_names_the_real_defaults() {
    let options = TrainOptions::default();
    let model = &options.model;
    let defaults = [
        ("mode", model.mode.to_string()),
        ("sparsity", model.sparsity.to_string()),
        ("method", options.method.to_string()),
        ("update_every", options.update_every.to_string()),
        ("head", model.head.unwrap().to_string()),
        ("hidden", model.hidden.to_string()),
        ("hops", model.hops.to_string()),
        ("label_hops", options.label_hops.to_string()),
        ("output_layers", model.output_layers.to_string()),
        ("label_layers", model.label_layers.to_string()),
        ("activation", model.activation.to_string()),
        ("alpha", model.alpha.to_string()),
        ("dropout", model.dropout.to_string()),
        ("input_dropout", model.input_dropout.to_string()),
        ("attention_dropout", model.attention_dropout.to_string()),
        ("label_dropout", model.label_dropout.to_string()),
        ("epochs", options.epochs[0].to_string()),
        ("batch", options.batch.to_string()),
        ("learning_rate", options.learning_rate.to_string()),
        ("weight_decay", options.weight_decay.to_string()),
        ("threshold", options.threshold.to_string()),
        ("temperature", options.temperature.to_string()),
        ("gamma", options.gamma.to_string()),
        ("seed", options.seed.to_string()),
        ("eval_every", options.eval_every.to_string()),
        ("checkpoint_every", options.checkpoint_every.to_string()),
    ];
    let command = Args::command();
    for (id, value) in defaults {
        let argument = command.get_arguments().find(|arg| arg.get_id() == id);
        let help = argument.unwrap().get_help().unwrap().to_string();
        assert!(
            help.ends_with(&format!("[default: {value}]")),
            "{id}: {help}"
        );
    }
}

#[test]
fn no_arguments_are_the_defaults() {
    let args = Args::parse_from(["gamlp_dst"]);
    assert_eq!(args.new_options(), TrainOptions::default());
}

#[test]
fn contradictory_flags_are_refused() {
    let parse = |flags: &[&str]| {
        let flags = ["gamlp_dst"].iter().chain(flags);
        Args::try_parse_from(flags).unwrap_err().exit_code()
    };
    assert_eq!(parse(&["--resume", "--overwrite", "--out", "x"]), 2);
    assert_eq!(parse(&["--resume", "--recipe", "snack"]), 2);
    assert_eq!(parse(&["--overwrite"]), 2);
    assert_eq!(parse(&["--features", "degree"]), 2);
    assert_eq!(parse(&["--data", "x", "--synthetic", "products"]), 2);
    assert_eq!(parse(&["--synthetic", "10,20"]), 2);
    assert_eq!(parse(&["--epochs", "40,-1"]), 2);
    assert_eq!(parse(&["--mode", "compact"]), 2);
    assert_eq!(parse(&["--epochs", "40", "--epochs", "30"]), 2);
}

#[test]
fn a_recipe_gives_way_to_options() {
    let args = Args::parse_from(["gamlp_dst", "--recipe", "published", "--mode", "sparse"]);
    let options = args.new_options();
    assert_eq!(options.epochs, [400, 300, 300, 300]);
    assert_eq!(
        (options.method, options.model.head),
        (Preset::SnackGamlp, None)
    );
    assert_eq!(options.validate(), Ok(()));

    let args = Args::parse_from(["gamlp_dst", "--epochs", "3,2", "--head", "0"]);
    let options = args.new_options();
    assert_eq!(
        (&options.epochs[..], options.model.head),
        (&[3, 2][..], None)
    );
    assert_eq!(options.validate(), Ok(()));
}

#[test]
fn values_out_of_range_are_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = tiny(dir.path());
    let cases = [
        (
            Args {
                sparsity: Some(1.5),
                ..tiny.clone()
            },
            "--sparsity is 1.5, but must be at least 0 and below 1",
        ),
        (
            Args {
                hidden: Some(0),
                ..tiny.clone()
            },
            "--hidden is 0, but must be between 1 and 65536",
        ),
        (
            Args {
                epochs: vec![3, 0],
                ..tiny.clone()
            },
            "--epochs is 0, but must be between 1 and 1000000",
        ),
        (
            Args {
                batch: Some(1),
                ..tiny.clone()
            },
            "--batch is 1, but must be between 2 and 16777216",
        ),
        (
            Args {
                learning_rate: Some(-1.0),
                ..tiny.clone()
            },
            "--learning-rate is -1, but must be above 0 and at most 1",
        ),
        (
            Args {
                mode: Some(WeightMode::Masked),
                method: Some(Preset::Set),
                ..tiny.clone()
            },
            "--method is set, but must be static with --mode masked, whose pattern cannot change",
        ),
        (
            Args {
                scope: Some(gamlp::SparseScope::Head),
                head: Some(0),
                ..tiny.clone()
            },
            "--scope is head, but must be hidden or all without a feature head",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(message(&args), expected);
        assert_untouched(dir.path());
    }
}

#[test]
fn options_without_effect_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = Args {
        sparsity: None,
        update_every: None,
        update_stop: None,
        ..tiny(dir.path())
    };
    let cases = [
        (
            Args {
                mode: Some(WeightMode::Dense),
                sparsity: Some(0.99),
                ..base.clone()
            },
            "--sparsity is 0.99, but must be left out with --mode dense, where all weights exist",
        ),
        (
            Args {
                method: Some(Preset::Static),
                update_every: Some(5),
                ..base.clone()
            },
            "--update-every is 5, but must be left out with --method static, whose pattern stays",
        ),
        (
            Args {
                output_layers: Some(3),
                ..base.clone()
            },
            "--output-layers is 3, but must be left out with a feature head, which takes the place \
             of the output network",
        ),
        (
            Args {
                gamma: Some(0.5),
                ..base
            },
            "--gamma is 0.5, but must be left out with one number of --epochs, where no stage \
             learns from another",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(message(&args), expected);
        assert_untouched(dir.path());
    }
}

/// A graph in files that are spoilt by `spoil`.
fn with_data(dir: &Path, spoil: impl FnOnce(&mut GraphData, &Path)) -> Args {
    let mut data = SyntheticGraph::small().generate().unwrap();
    let folder = dir.join("graph");
    spoil(&mut data, &folder);
    data.write(&folder, "random").unwrap();
    let mut args = tiny(dir);
    args.epochs = vec![1];
    args.graph.data = Some(folder);
    args.graph.cache = Some(dir.join("cache"));
    args
}

#[test]
fn graphs_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.graph.data = Some(dir.path().join("absent"));
    let absent = message(&args);
    assert!(absent.ends_with("absent"), "{absent}");
    assert!(absent.starts_with("there is no folder "), "{absent}");

    let empty = message(&with_data(dir.path(), |data, _| data.split.valid.clear()));
    assert!(empty.contains("valid.csv.gz is empty"), "{empty}");

    let few = message(&with_data(dir.path(), |data, _| {
        data.split.train.truncate(1)
    }));
    assert!(few.contains("has 1 node to learn from"), "{few}");

    let mut args = with_data(dir.path(), |_, _| {});
    args.graph.split = Some("sales".into());
    let split = message(&args);
    assert!(split.contains("sales"), "{split}");

    let mut args = tiny(dir.path());
    args.graph.synthetic = Some("10,20,3,11".parse().unwrap());
    assert_eq!(
        message(&args),
        "--synthetic: the number of classes is 11, but must be between 1 and 10"
    );
    args.graph.synthetic = Some("2147483647,2147483647,1048576,3".parse().unwrap());
    let large = message(&args);
    let start = "a graph of these --synthetic sizes takes at least 9,007,250,";
    assert!(large.starts_with(start), "{large}");
    assert_untouched(dir.path());
}

#[test]
fn a_graph_without_features_takes_those_that_are_offered() {
    let dir = tempfile::tempdir().unwrap();
    let args = with_data(dir.path(), |data, _| data.features = Default::default());
    let refused = message(&args);
    assert!(
        refused.ends_with("a graph without features needs --features degree or one-hot"),
        "{refused}"
    );
    assert_untouched(dir.path());
    for features in [gamlp::FeatureSource::Degree, gamlp::FeatureSource::OneHot] {
        let mut args = args.clone();
        args.graph.features = Some(features);
        args.out = Some(dir.path().join(format!("{features:?}")));
        finish(&args).unwrap();
    }
    assert!(dir.path().join("cache").is_dir());
}

#[test]
fn devices_outside_the_build_name_their_feature() {
    let dir = tempfile::tempdir().unwrap();
    let available = DeviceChoice::available();
    for device in [DeviceChoice::Cuda, DeviceChoice::Metal, DeviceChoice::Cpu] {
        if available.contains(&device) {
            continue;
        }
        let mut args = tiny(dir.path());
        args.device = Some(device);
        let message = message(&args);
        assert!(message.contains(&format!("build with `--features {device}`")));
        assert_untouched(dir.path());
    }
}

#[test]
fn a_folder_in_use_is_replaced_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.epochs = vec![2];
    finish(&args).unwrap();
    let checkpoint = || fs::read(dir.path().join("run/checkpoint.bpk")).unwrap();
    let before = checkpoint();
    let message = message(&args);
    assert!(message.contains("already holds a run (checkpoint.bpk); add --resume"));
    assert_eq!(checkpoint(), before);

    args.overwrite = true;
    args.seed = Some(1);
    finish(&args).unwrap();
    assert_ne!(checkpoint(), before);
}

#[test]
fn nothing_to_resume_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.resume = true;
    let message = message(&args);
    assert!(
        message.starts_with("nothing to resume: there is no "),
        "{message}"
    );
}
