//! Runs the programs themselves, which `cargo test` builds beside this binary.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The program of an example; says so and returns nothing where only this test target was built.
fn program(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let path = own.ancestors().nth(2).unwrap().join("examples").join(file);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: there is no {}", path.display());
    None
}

/// A small run that goes to `out`.
fn training(program: &Path, out: &Path, epochs: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--hidden", "16", "--head", "16", "--hops", "1"])
        .args(["--epochs", epochs])
        .arg("--out")
        .arg(out);
    #[cfg(feature = "flex")]
    command.args(["--device", "flex"]);
    command
}

#[test]
fn closed_outputs_do_not_end_a_run() {
    let Some(program) = program("gamlp_dst") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut child = training(&program, &out, "10")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));

    assert!(child.wait().unwrap().success());
    let log = fs::read_to_string(out.join("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 10);
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_the_run_goes_on() {
    use std::{thread, time::Duration};

    let Some(program) = program("gamlp_dst") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("run");
    let mut child = training(&program, &out, "1000000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = || fs::read_to_string(out.join("log.jsonl")).map_or(0, |log| log.lines().count());
    while lines() < 3 {
        assert!(child.try_wait().unwrap().is_none(), "the run ended early");
        thread::sleep(Duration::from_millis(20));
    }
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    let finished = child.wait_with_output().unwrap();
    assert_eq!(finished.status.code(), Some(130));
    let said = String::from_utf8(finished.stderr).unwrap();
    assert!(
        said.contains("stopped after step ") && said.contains("--resume"),
        "{said}"
    );

    let done = lines();
    let epochs = (done + 2).to_string();
    let resumed = Command::new(&program)
        .args(["--resume", "--quiet", "--epochs", &epochs, "--out"])
        .arg(&out)
        .output()
        .unwrap();
    assert!(resumed.status.success(), "{resumed:?}");
    assert_eq!(lines(), done + 2);
}

#[test]
fn errors_have_exit_codes() {
    let (Some(train), Some(infer)) = (program("gamlp_dst"), program("gamlp_infer")) else {
        return;
    };
    let code = |program: &Path, args: &[&str]| {
        let output = Command::new(program).args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let last = said.lines().last();
        assert!(
            last.is_some_and(|line| line.starts_with("error: ")),
            "{said}"
        );
        output.status.code()
    };
    assert_eq!(code(&train, &["--sparsity", "2"]), Some(2));
    assert_eq!(
        code(&train, &["--data", "there-is-no-such-folder"]),
        Some(1)
    );
    assert_eq!(code(&infer, &["--samples", "0"]), Some(2));
    assert_eq!(code(&infer, &["--run", "there-is-no-such-folder"]), Some(1));
}
