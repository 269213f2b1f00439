use crate::support::{finish, tiny};
use clap::{CommandFactory, Parser};
use fashion_mnist::{
    AllocationChoice, Args, DeviceChoice, Gradient, Loss, Method, OptimizerChoice, Options,
};
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
    let options = Options::default();
    let hidden: Vec<String> = options.hidden.iter().map(usize::to_string).collect();
    let defaults = [
        ("method", options.method.to_string()),
        ("epsilon", options.connections.epsilon.to_string()),
        ("hidden", hidden.join(",")),
        ("epochs", options.epochs.to_string()),
        ("batch", options.batch.to_string()),
        (
            "learning_rate",
            format!("{}, with --optimizer adam 0.001", options.learning_rate),
        ),
        ("optimizer", options.optimizer.to_string()),
        ("momentum", options.momentum.to_string()),
        ("weight_decay", options.weight_decay.to_string()),
        ("dropout", options.dropout.to_string()),
        ("loss", options.loss.to_string()),
        (
            "gradient",
            format!("{}, with --loss cross-entropy exact", options.gradient),
        ),
        (
            "allocation",
            format!("{}, with --sparsity erk", options.connections.allocation),
        ),
        ("init", format!("{}, with --sparsity fan-in", options.init)),
        ("seeds", "1".into()),
        ("first_seed", "0".into()),
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
    let args = Args::parse_from(["fashion_mnist"]);
    assert_eq!(args.options().unwrap(), Options::default());
    assert_eq!(args.methods(), [Method::SET]);
}

#[test]
fn sparsity_brings_its_own_defaults() {
    let args = Args::parse_from(["fashion_mnist", "--sparsity", "0.99"]);
    let options = args.options().unwrap();
    assert_eq!(options.connections.allocation, AllocationChoice::Erk);
    assert_eq!(options.init.to_string(), "fan-in");
}

#[test]
fn methods_are_a_list_without_repetitions() {
    let args = Args::parse_from(["fashion_mnist", "--method", "static,set-original,static"]);
    assert_eq!(args.methods(), [Method::STATIC, Method::SET]);
}

#[test]
fn contradictory_flags_are_refused() {
    let parse = |flags: &[&str]| {
        let flags = ["fashion_mnist"].iter().chain(flags);
        Args::try_parse_from(flags).unwrap_err().exit_code()
    };
    assert_eq!(parse(&["--overwrite"]), 2);
    assert_eq!(parse(&["--epsilon", "3", "--sparsity", "0.9"]), 2);
    assert_eq!(parse(&["--method", "sets"]), 2);
    assert_eq!(parse(&["--epochs", "-1"]), 2);
}

#[test]
fn values_out_of_range_are_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = tiny(dir.path());
    let cases = [
        (
            Args {
                epochs: Some(0),
                ..tiny.clone()
            },
            "--epochs is 0, but must be between 1 and 1000000",
        ),
        (
            Args {
                seeds: Some(0),
                ..tiny.clone()
            },
            "--seeds is 0, but must be between 1 and 1000000",
        ),
        (
            Args {
                epsilon: None,
                sparsity: Some(1.0),
                ..tiny.clone()
            },
            "--sparsity is 1, but must be at least 0 and below 1",
        ),
        (
            Args {
                drop_fraction: Some(1.0),
                ..tiny.clone()
            },
            "--drop-fraction is 1, but must be at least 0 and below 1",
        ),
        (
            Args {
                hidden: Some(vec![12, 0]),
                ..tiny.clone()
            },
            "--hidden is 0, but must be between 1 and 1048576",
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
    let tiny = Args {
        epsilon: None,
        ..tiny(dir.path())
    };
    let cases = [
        (
            Args {
                allocation: Some(AllocationChoice::Erk),
                epsilon: Some(3.0),
                ..tiny.clone()
            },
            "--epsilon 3 has no effect with --allocation erk, which goes by --sparsity; leave it out",
        ),
        (
            Args {
                allocation: Some(AllocationChoice::Er),
                sparsity: Some(0.5),
                ..tiny.clone()
            },
            "--sparsity 0.5 has no effect with --allocation er, which goes by --epsilon; leave it out",
        ),
        (
            Args {
                allocation: Some(AllocationChoice::Uniform),
                ..tiny.clone()
            },
            "--allocation uniform needs --sparsity, which it distributes",
        ),
        (
            Args {
                loss: Some(Loss::CrossEntropy),
                gradient: Some(Gradient::Published),
                ..tiny.clone()
            },
            "--gradient published is not possible with --loss cross-entropy, which was not \
             published; leave it out",
        ),
        (
            Args {
                optimizer: Some(OptimizerChoice::Adam),
                momentum: Some(0.5),
                ..tiny.clone()
            },
            "--momentum 0.5 has no effect with --optimizer adam, which has its own; leave it out",
        ),
        (
            Args {
                method: vec![Method(Preset::MestEm)],
                drop_fraction: Some(0.5),
                ..tiny.clone()
            },
            "--drop-fraction 0.5 has no effect with --method mest-em, \
             whose shares come in stages; leave it out",
        ),
        (
            Args {
                method: vec![Method::STATIC],
                drop_fraction: Some(0.5),
                ..tiny.clone()
            },
            "--drop-fraction 0.5 has no effect with --method static, whose topology stays; leave it out",
        ),
        (
            Args {
                method: vec![Method(Preset::MestEms)],
                update_stop: Some(0.5),
                ..tiny.clone()
            },
            "--update-stop 0.5 has no effect with --method mest-ems, \
             whose shares come in stages; leave it out",
        ),
        (
            Args {
                method: vec![Method::STATIC],
                update_every: Some(5),
                ..tiny.clone()
            },
            "--update-every 5 has no effect with --method static, whose topology stays; leave it out",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(message(&args), expected);
        assert_untouched(dir.path());
    }
}

#[test]
fn a_network_that_cannot_be_so_sparse_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        epsilon: None,
        sparsity: Some(0.999),
        ..tiny(dir.path())
    };
    // 368 weights in three layers, which need one each.
    let message = message(&args);
    assert!(
        message.contains("a sparsity of 99.9 % is infeasible"),
        "{message}"
    );
    assert!(message.contains("at most 99.1847 %"), "{message}");
    assert_untouched(dir.path());
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
        assert!(
            message.contains(&format!("build with `--features {device}`")),
            "{message}"
        );
        assert_untouched(dir.path());
    }
}

#[test]
fn results_are_replaced_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.epochs = Some(1);
    finish(&args).unwrap();
    let results = dir.path().join("run/results.json");
    let before = fs::read(&results).unwrap();

    assert!(message(&args).contains("already holds results; add --overwrite"));
    assert_eq!(fs::read(&results).unwrap(), before);

    args.overwrite = true;
    args.first_seed = Some(1);
    finish(&args).unwrap();
    assert_ne!(fs::read(&results).unwrap(), before);
}

/// A command that is stopped in its first run leaves nothing of the runs before it.
#[test]
fn overwriting_removes_the_old_runs_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.method = vec![Method::STATIC];
    finish(&args).unwrap();
    let notes = dir.path().join("run/notes.txt");
    fs::write(&notes, "mine").unwrap();

    args.method = vec![Method(Preset::Rigl)];
    args.overwrite = true;
    args.learning_rate = Some(100.0);
    args.loss = Some(Loss::CrossEntropy);
    args.hidden = Some(vec![12; 6]);
    args.update_every = Some(2);
    args.epsilon = None;
    args.sparsity = Some(0.1);
    assert!(message(&args).contains("the loss became NaN"));
    assert!(!dir.path().join("run/results.json").exists());
    assert!(!dir.path().join("run/static-0").exists());
    let epochs = fs::read_to_string(dir.path().join("run/epochs.csv")).unwrap();
    assert!(
        epochs.lines().skip(1).all(|line| line.starts_with("rigl,")),
        "{epochs}"
    );
    assert_eq!(fs::read_to_string(notes).unwrap(), "mine");
}

#[test]
fn options_that_leave_no_update_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tiny = tiny(dir.path());
    let cases = [
        (
            Args {
                update_every: Some(19),
                ..tiny.clone()
            },
            "with --update-every 19 set-original makes no topology update in this run of 3 epochs (6 \
             steps each): choose a smaller interval, a later end or more --epochs",
        ),
        (
            Args {
                drop_fraction: Some(0.0),
                ..tiny.clone()
            },
            "--drop-fraction 0 replaces nothing: choose a share above 0, or --method static",
        ),
    ];
    for (args, expected) in cases {
        assert_eq!(message(&args), expected);
        assert_untouched(dir.path());
    }
}

#[test]
fn the_version_is_printed() {
    let error = Args::try_parse_from(["fashion_mnist", "--version"]).unwrap_err();
    assert_eq!(error.exit_code(), 0);
    assert!(error.to_string().starts_with("fashion_mnist "), "{error}");
}

/// The program itself, which `cargo test` builds beside this binary; absent if only this test
/// target was built.
fn program() -> Option<Command> {
    let own = std::env::current_exe().unwrap();
    let name = format!("fashion_mnist{}", std::env::consts::EXE_SUFFIX);
    let program = own.ancestors().nth(2).unwrap().join("examples").join(name);
    program.exists().then(|| Command::new(program))
}

fn small(command: &mut Command, dir: &Path) {
    let tiny = tiny(dir);
    command
        .args([
            "--hidden",
            "12,8",
            "--epsilon",
            "2",
            "--epochs",
            "3",
            "--batch",
            "10",
            "--data",
        ])
        .arg(tiny.data.unwrap())
        .arg("--out")
        .arg(tiny.out.unwrap());
}

#[test]
fn results_go_to_standard_output_and_epochs_to_standard_error() {
    let Some(mut program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    small(&mut program, dir.path());
    let output = program.arg("--json").output().unwrap();
    assert!(output.status.success());
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(results["runs"][0]["epochs"].as_array().unwrap().len(), 3);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        text.lines().filter(|line| line.contains("epoch ")).count(),
        3,
        "{text}"
    );
}

#[test]
fn errors_have_the_exit_codes_of_the_readme() {
    let run = |arguments: &[&str]| {
        let mut program = program()?;
        let dir = tempfile::tempdir().unwrap();
        small(&mut program, dir.path());
        let output = program.args(arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.starts_with("error: "), "{text}");
        Some(output.status.code())
    };
    assert!(run(&["--dropout", "1"]).is_none_or(|code| code == Some(2)));
    assert!(run(&["--learning-rate", "0"]).is_none_or(|code| code == Some(2)));
    assert!(run(&["--momentum", "x"]).is_none_or(|code| code == Some(2)));
}

/// A file system without room for the table: the run is not thought to be fine.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error() {
    let Some(mut program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    small(&mut program, dir.path());
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = program.arg("--quiet").stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.starts_with("error: cannot write the results to standard output:"),
        "{text}"
    );
    assert!(dir.path().join("run/results.json").exists());
}

#[test]
fn closed_outputs_do_not_end_a_run() {
    let Some(mut program) = program() else { return };
    let dir = tempfile::tempdir().unwrap();
    small(&mut program, dir.path());
    let program = program.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));

    assert!(child.wait().unwrap().success());
    let epochs = fs::read_to_string(dir.path().join("run/epochs.csv")).unwrap();
    assert_eq!(epochs.lines().count(), 4);
}
