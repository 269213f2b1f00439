//! Running `gpt2_convert` in this process, and looking at what it wrote.

use crate::support::device;
use clap::Parser;
use gpt2::{ConvertArgs, LoadOptions, Pretrained, convert, load_pretrained};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// Loads weights as they are.
pub fn load(path: &Path) -> Pretrained {
    load_pretrained(path, &LoadOptions::default(), &device()).unwrap()
}

/// Converts with these further flags.
pub fn try_convert(from: &Path, to: &Path, flags: &[&str]) -> Result<(), String> {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let args = ["gpt2_convert", "--quiet", "--from", from, "--to", to];
    let args = ConvertArgs::try_parse_from(args.iter().chain(flags)).unwrap();
    convert(&args).map_err(|error| error.to_string())
}

/// Converts with these further flags; panics if that fails.
pub fn converted(from: &Path, to: &Path, flags: &[&str]) {
    try_convert(from, to, flags).unwrap();
}

/// File names and contents of a folder.
pub fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap()))
        .collect()
}

/// The names of the files in a folder.
pub fn names(dir: &Path) -> Vec<String> {
    let names = contents(dir).into_keys();
    names
        .map(|name| name.to_str().unwrap().to_owned())
        .collect()
}
