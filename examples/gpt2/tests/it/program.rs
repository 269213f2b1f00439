//! Running the commands themselves, which `cargo test` builds beside this binary.

use std::{
    env,
    io::Write,
    path::PathBuf,
    process::{Command, Stdio},
};

/// What a command left.
pub struct Run {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The path of a command; says so and returns nothing where only this test target was built.
pub fn program(name: &str) -> Option<PathBuf> {
    let own = env::current_exe().unwrap();
    let name = format!("{name}{}", env::consts::EXE_SUFFIX);
    let path = own.ancestors().nth(2).unwrap().join("examples").join(name);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: no {}; build the examples, too", path.display());
    None
}

/// The CPU device where there is one: on a GPU a command tunes its kernels first.
pub fn on_cpu(args: &[&str]) -> &'static [&'static str] {
    match cfg!(feature = "flex") && !args.contains(&"--device") {
        true => &["--device", "flex"],
        false => &[],
    }
}

/// Runs a command with this standard input; fails if it is not built.
pub fn run(program: &PathBuf, args: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(program)
        .args(args)
        .args(on_cpu(args))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that needs no input may be gone already.
    child.stdin.take().unwrap().write_all(input).ok();
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
