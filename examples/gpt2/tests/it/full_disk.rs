//! Disks that are full, as a limit on the length of the files that a process may write.

use crate::{
    convert_support::contents,
    fixture::Fixture,
    program::{on_cpu, program},
    support::tiny,
};
use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
};

/// What a command left that could write files of `blocks` times 512 or 1024 bytes at most.
fn limited(name: &str, dir: &Path, blocks: usize, flags: &str) -> Option<(Option<i32>, String)> {
    // Without the signal, which would end the process, writing fails as it does on a full disk.
    let script = r#"trap "" XFSZ; ulimit -f "$1"; shift; exec "$@""#;
    let output = Command::new("sh")
        .args(["-c", script, "sh", &blocks.to_string()])
        .arg(program(name)?)
        .args(flags.split(' '))
        .args(match name {
            "gpt2_convert" => &[],
            _ => on_cpu(&[]),
        })
        .current_dir(dir)
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Some((output.status.code(), err))
}

/// Runs without a limit that matters.
fn free(name: &str, dir: &Path, flags: &str) -> Option<()> {
    let (code, err) = limited(name, dir, 1 << 20, flags)?;
    assert_eq!(code, Some(0), "{err}");
    Some(())
}

/// A folder with a run of two steps, if the program is there.
fn run_of_two_steps() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir().unwrap();
    tiny(dir.path());
    let flags = "--quiet --out run --text text.txt --steps 2 --layers 1 --width 16 --heads 2 --context 16 \
                 --update-every 1000";
    free("gpt2_dst", dir.path(), flags)?;
    Some(dir)
}

/// Fails unless the run ends with exit code 1 and one line about `file`; returns what is in its folder.
fn assert_fails(dir: &Path, blocks: usize, flags: &str, file: &str) {
    let path = dir.join("run/checkpoint.bpk");
    let before = fs::read(&path).unwrap();
    let flags = format!("--quiet --resume --out run {flags}");
    let (code, err) = limited("gpt2_dst", dir, blocks, &flags).unwrap();
    assert_eq!(code, Some(1), "{err}");
    let last = err.lines().last().unwrap();
    assert!(last.starts_with("error: ") && last.contains(file), "{err}");
    assert!(last.contains("File too large"), "{err}");
    assert_eq!(fs::read(&path).unwrap(), before, "{file}");
    let names = contents(&dir.join("run")).into_keys();
    for name in names.map(|name| name.display().to_string()) {
        assert!(!name.ends_with(".tmp"), "{file}: {name} is left");
    }
}

#[test]
fn a_checkpoint_that_cannot_be_written_leaves_the_one_before() {
    let Some(dir) = run_of_two_steps() else {
        return;
    };
    let length = fs::metadata(dir.path().join("run/checkpoint.bpk")).unwrap();
    assert!(length.len() > 16 * 1024);
    assert_fails(
        dir.path(),
        16,
        "--steps 4 --checkpoint-every 1",
        "checkpoint.bpk",
    );
    free(
        "gpt2_dst",
        dir.path(),
        "--quiet --resume --out run --steps 4",
    )
    .unwrap();
}

#[test]
fn a_log_that_cannot_be_written_ends_the_run_and_can_be_continued() {
    let Some(dir) = run_of_two_steps() else {
        return;
    };
    assert_fails(
        dir.path(),
        1,
        "--steps 100 --checkpoint-every 0",
        "log.jsonl",
    );
    free(
        "gpt2_dst",
        dir.path(),
        "--quiet --resume --out run --steps 20",
    )
    .unwrap();
    let log = fs::read_to_string(dir.path().join("run/log.jsonl")).unwrap();
    let steps = log.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["step"].as_u64().unwrap()
    });
    assert_eq!(steps.collect::<Vec<_>>(), [2, 10, 20]);
}

#[test]
fn pictures_that_cannot_be_written_are_named() {
    let Some(dir) = run_of_two_steps() else {
        return;
    };
    let picture = dir.path().join("run/loss.svg");
    let before = fs::read(&picture).unwrap();
    assert!(before.len() > 1024);
    // All steps are done: only the pictures are drawn.
    assert_fails(dir.path(), 1, "--steps 2", "loss.svg");
    assert_eq!(fs::read(&picture).unwrap(), before);
}

#[test]
fn weights_that_cannot_be_written_leave_those_before() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::with_sizes(256, 24).write(&dir.path().join("from"));
    let flags = "--quiet --from from --to to";
    if free("gpt2_convert", dir.path(), flags).is_none() {
        return;
    }
    let to = dir.path().join("to");
    let before = contents(&to);
    let flags = format!("{flags} --overwrite --sparsity 0.5 --format sparse");
    let (code, err) = limited("gpt2_convert", dir.path(), 1, &flags).unwrap();
    assert_eq!(code, Some(1), "{err}");
    let path = Path::new("to").join("model.sparse.safetensors");
    assert_eq!(
        err,
        format!(
            "error: cannot write {}: File too large (os error 27)\n",
            path.display()
        )
    );
    assert_eq!(contents(&to), before);
    assert_eq!(fs::read_dir(&to).unwrap().count(), before.len());
}

#[test]
fn a_token_cache_that_cannot_be_written_is_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    Fixture::with_sizes(256, 24).write(&dir.path().join("model"));
    let file = File::create(dir.path().join("text.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    packed
        .write_all("to be or not to be\n".repeat(400).as_bytes())
        .unwrap();
    packed.finish().unwrap();
    let flags = "--quiet --json --model model --text text.gz --token-cache tokens";
    let Some((code, err)) = limited("gpt2_eval", dir.path(), 1, flags) else {
        return;
    };
    // The cache is a help, not a need.
    assert_eq!(code, Some(0), "{err}");
    let expected = "warning: cannot write the token cache tokens/text.gz-bytes-";
    assert!(err.starts_with(expected), "{err}");
    assert!(err.contains("File too large"), "{err}");
    assert_eq!(fs::read_dir(dir.path().join("tokens")).unwrap().count(), 0);
}
