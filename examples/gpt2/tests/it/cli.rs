use crate::program::on_cpu;
use crate::support::{finish, tiny};
use clap::{CommandFactory, Parser};
use gpt2::{Args, DeviceChoice, MlpMode, TrainOptions};
use snack_burn::dst::Preset;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

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
        ("sparsity", model.sparsity.to_string()),
        ("layers", model.layers.to_string()),
        ("width", model.width.to_string()),
        ("heads", model.heads.to_string()),
        ("context", model.context.to_string()),
        ("mode", model.mode.to_string()),
        ("dropout", model.dropout.to_string()),
        ("method", options.method.to_string()),
        ("tokenizer", options.tokenizer.to_string()),
        ("batch", options.batch.to_string()),
        ("accumulate", options.accumulate.to_string()),
        ("precision", options.precision.to_string()),
        ("steps", options.steps.to_string()),
        ("seed", options.seed.to_string()),
        ("learning_rate", options.learning_rate.to_string()),
        ("warmup", options.warmup.to_string()),
        ("weight_decay", options.weight_decay.to_string()),
        ("update_every", options.update_every.to_string()),
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
    let args = Args::parse_from(["gpt2_dst"]);

    assert_eq!(
        args.options(TrainOptions::default()),
        TrainOptions::default()
    );
}

#[test]
fn contradictory_flags_are_refused() {
    let parse = |flags: &[&str]| {
        let flags = ["gpt2_dst"].iter().chain(flags);
        Args::try_parse_from(flags).unwrap_err().exit_code()
    };
    assert_eq!(parse(&["--resume", "--overwrite", "--out", "x"]), 2);
    assert_eq!(parse(&["--overwrite"]), 2);
    assert_eq!(parse(&["--mode", "compact"]), 2);
    assert_eq!(parse(&["--layers", "-1"]), 2);
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
                heads: Some(5),
                ..tiny.clone()
            },
            "--heads is 5, but must be a divisor of --width 16",
        ),
        (
            Args {
                steps: Some(0),
                ..tiny.clone()
            },
            "--steps is 0, but must be between 1 and 1000000000",
        ),
        (
            Args {
                batch: Some(1 << 20),
                accumulate: Some(1 << 20),
                ..tiny.clone()
            },
            "--batch times --accumulate times the number of devices is 1099511627776, but must be at \
             most 16777216, the windows of a step",
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
                drop_fraction: Some(1.1),
                ..tiny.clone()
            },
            "--drop-fraction is 1.1, but must be at least 0 and below 1",
        ),
        (
            Args {
                mode: Some(gpt2::MlpMode::Masked),
                method: Some(Preset::Set),
                ..tiny.clone()
            },
            "--method is set, but must be static with --mode masked, whose pattern cannot change",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(message(&args), expected);
        assert_untouched(dir.path());
    }
}

#[test]
fn texts_that_cannot_be_used_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    let mut with = |content: Option<&[u8]>| {
        let path = dir.path().join("other.txt");
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        args.text = vec![path];
        let message = message(&args);
        assert_untouched(dir.path());
        message
    };

    assert!(with(None).contains("other.txt: No such file") || cfg!(windows));
    assert!(with(Some(b"")).contains("other.txt is too short: its training part has 0 of 0 bytes"));
    let held_out = with(Some(&[b'x'; 320]));
    assert!(held_out.contains("its held-out part has 16 of 320 bytes, but must have at least 17"));
}

#[test]
fn devices_outside_the_build_name_their_feature() {
    let dir = tempfile::tempdir().unwrap();
    let available = DeviceChoice::available();
    let all = [
        DeviceChoice::Flex,
        DeviceChoice::Cpu,
        DeviceChoice::Wgpu,
        DeviceChoice::Vulkan,
        DeviceChoice::Cuda,
        DeviceChoice::Metal,
        DeviceChoice::Rocm,
    ];
    for device in all.into_iter().filter(|device| !available.contains(device)) {
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
    args.steps = Some(2);
    finish(&args).unwrap();
    let before = fs::read(dir.path().join("run/checkpoint.bpk")).unwrap();

    let message = message(&args);
    assert!(message.contains("already holds a run (checkpoint.bpk); add --resume"));
    assert_eq!(
        fs::read(dir.path().join("run/checkpoint.bpk")).unwrap(),
        before
    );

    args.overwrite = true;
    args.seed = Some(1);
    finish(&args).unwrap();
    assert_ne!(
        fs::read(dir.path().join("run/checkpoint.bpk")).unwrap(),
        before
    );
}

#[test]
fn a_log_without_checkpoint_leads_to_overwrite() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    fs::create_dir(dir.path().join("run")).unwrap();
    fs::write(dir.path().join("run/log.jsonl"), b"").unwrap();

    for resume in [false, true] {
        args.resume = resume;
        let message = message(&args);
        assert!(
            message.contains("holds a log but no checkpoint") && message.contains("--overwrite"),
            "{message}"
        );
    }
    args.resume = false;
    args.overwrite = true;
    finish(&args).unwrap();
}

#[test]
fn a_new_run_that_cannot_start_leaves_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.steps = Some(2);
    finish(&args).unwrap();
    let files = || {
        ["checkpoint.bpk", "log.jsonl"].map(|file| fs::read(dir.path().join("run").join(file)).ok())
    };
    let before = files();

    args.overwrite = true;
    args.text = vec![dir.path().join("absent.txt")];
    message(&args);
    assert_eq!(files(), before);
}

#[test]
fn negative_numbers_name_their_option() {
    let refused = ["--steps", "--seed", "--layers", "--update-stop"];
    for option in refused {
        let error = Args::try_parse_from(["gpt2_dst", option, "-1"]).unwrap_err();
        assert!(
            error.to_string().contains(&format!("'-1' for '{option} ")),
            "{error}"
        );
    }
    let args = Args::try_parse_from(["gpt2_dst", "--sparsity", "-0.1"]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        sparsity: args.sparsity,
        ..tiny(dir.path())
    };
    assert_eq!(
        message(&args),
        "--sparsity is -0.1, but must be at least 0 and below 1"
    );
}

#[test]
fn the_version_is_printed() {
    let error = Args::try_parse_from(["gpt2_dst", "--version"]).unwrap_err();

    assert_eq!(error.exit_code(), 0);
    assert!(error.to_string().starts_with("gpt2_dst "), "{error}");
}

#[test]
fn options_without_effect_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = Args {
        sparsity: None,
        update_every: None,
        ..tiny(dir.path())
    };
    let cases = [
        (
            Args {
                mode: Some(MlpMode::Dense),
                sparsity: Some(0.99),
                ..base.clone()
            },
            "--sparsity is 0.99, but must be left out with --mode dense, where all weights exist",
        ),
        (
            Args {
                mode: Some(MlpMode::Masked),
                drop_fraction: Some(0.5),
                ..base.clone()
            },
            "--drop-fraction is 0.5, but must be left out with --mode masked, \
             whose pattern cannot change",
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
                mode: Some(MlpMode::Dense),
                update_stop: Some(5),
                ..base
            },
            "--update-stop is 5, but must be left out with --mode dense, \
             whose pattern cannot change",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(message(&args), expected);
        assert_untouched(dir.path());
    }
}

/// Runs the program itself, which `cargo test` builds beside this binary.
#[test]
fn closed_outputs_do_not_end_a_run() {
    let own = std::env::current_exe().unwrap();
    let name = format!("gpt2_dst{}", std::env::consts::EXE_SUFFIX);
    let program = own.ancestors().nth(2).unwrap().join("examples").join(name);
    if !program.exists() {
        // Only this test target was built.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let tiny = tiny(dir.path());
    let mut child = Command::new(program)
        .args(["--steps", "20", "--eval-every", "1", "--width", "16"])
        .args(["--layers", "1", "--context", "16"])
        .args(on_cpu(&[]))
        .arg("--text")
        .arg(&tiny.text[0])
        .arg("--out")
        .arg(dir.path().join("run"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));

    assert!(child.wait().unwrap().success());
    let log = fs::read_to_string(dir.path().join("run/log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 20);
}
