//! Standard outputs that the programs cannot write to: a full disk, a descriptor for reading, a closed pipe.

use crate::{
    fixture::Fixture,
    program::{on_cpu, program},
};
use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
};

/// Every program, with flags that make it print a result; `gpt2_dst` writes to `dir/NAME`.
fn commands(dir: &Path, name: &str) -> Vec<Command> {
    let model = dir.join("model");
    Fixture::with_sizes(256, 24).write(&model);
    let (model, run, text) = (&model, &dir.join(name), &dir.join("text.txt"));
    fs::write(
        text,
        "to be, or not to be: that is the question\n".repeat(20),
    )
    .unwrap();
    let command = |program_name: &str, flags: &[&str]| {
        let mut command = Command::new(program(program_name)?);
        command.args(flags);
        Some(command)
    };
    let with_model = |program_name: &str, flags: &[&str]| {
        let mut command = command(program_name, flags)?;
        command.args(on_cpu(flags)).arg("--model").arg(model);
        Some(command)
    };
    let converted = |report: &str| {
        let mut command = command("gpt2_convert", &[report])?;
        command.arg("--from").arg(model);
        Some(command)
    };
    let evaluated = |flags: &[&str]| {
        let mut command = with_model("gpt2_eval", flags)?;
        command.arg("--text").arg(text);
        Some(command)
    };
    let trained = || {
        let flags = ["--quiet", "--steps=2", "--width=16", "--layers=1"];
        let mut command = command("gpt2_dst", &flags)?;
        command.args(on_cpu(&[])).args(["--context=16", "--text"]);
        command.arg(text).arg("--out").arg(run);
        Some(command)
    };
    let prompt = ["--quiet", "--prompt=to be", "--tokens=4"];
    let json = [&prompt[..], &["--json"]].concat();
    [
        with_model("gpt2_generate", &prompt),
        with_model("gpt2_generate", &json),
        converted("--report"),
        converted("--report=json"),
        evaluated(&["--quiet"]),
        evaluated(&["--quiet", "--json"]),
        trained(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = [
        ("full", File::create("/dev/full"), "No space left on device"),
        ("read", File::open("/dev/null"), "Bad file descriptor"),
    ];
    for (name, output, reason) in outputs {
        let output = output.unwrap();
        for mut command in commands(dir.path(), name) {
            let result = command.stdout(output.try_clone().unwrap()).output();
            let result = result.unwrap();
            let message = String::from_utf8(result.stderr).unwrap();
            let expected = format!("error: cannot write to standard output: {reason}");
            assert!(message.starts_with(&expected), "{command:?}: {message:?}");
            assert_eq!(message.lines().count(), 1, "{command:?}: {message}");
            assert_eq!(result.status.code(), Some(1), "{command:?}");
        }
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    for mut command in commands(dir.path(), "piped") {
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        drop(child.stdout.take());
        let result = child.wait_with_output().unwrap();
        let message = String::from_utf8(result.stderr).unwrap();
        let outcome = (result.status.code(), message.as_str());
        assert_eq!(outcome, (Some(0), ""), "{command:?}");
    }
}
