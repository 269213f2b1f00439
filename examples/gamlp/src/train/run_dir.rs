use super::BestEpoch;
use example_support::RunFiles;
use std::{fs, path::PathBuf};

/// Start and end of the names of the best models of stages.
const BEST: (&str, &str) = ("best-", ".bpk");
/// The pictures of a run, in the order of [`write_pictures`](super::write_pictures).
pub(super) const PICTURES: [&str; 4] = ["loss.svg", "accuracy.svg", "density.svg", "memory.svg"];

/// The files of a run of `gamlp_dst`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GamlpFiles;

impl RunFiles for GamlpFiles {
    const PICTURES: &'static [&'static str] = &PICTURES;

    /// Whether it is `best-STAGE-EPOCH.bpk`.
    fn is_model(name: &str) -> bool {
        let numbers = name
            .strip_prefix(BEST.0)
            .and_then(|rest| rest.strip_suffix(BEST.1)?.split_once('-'));
        numbers.is_some_and(|(stage, epoch)| is_number(stage) && is_number(epoch))
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The folder of one run.
pub type RunDir = example_support::RunDir<GamlpFiles>;

/// The model of the best epoch of a stage.
pub fn best_model(dir: &RunDir, best: &BestEpoch) -> PathBuf {
    dir.path().join(best_name(best))
}

/// Removes, as far as that is possible, the models of epochs that were the best of their stage
/// before these were.
pub fn keep_best(dir: &RunDir, best: &[BestEpoch]) {
    let kept: Vec<_> = best.iter().map(best_name).collect();
    for entry in fs::read_dir(dir.path()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().filter(|name| GamlpFiles::is_model(name));
        if name.is_some_and(|name| !kept.iter().any(|kept| kept == name)) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn best_name(best: &BestEpoch) -> String {
    let (start, end) = BEST;
    format!("{start}{}-{}{end}", best.stage, best.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_models_that_are_no_longer_the_best_go() {
        let dir = tempfile::tempdir().unwrap();
        let names = [
            "best-0-3.bpk",
            "best-0-5.bpk",
            "best-1-3.bpk",
            "best-mine.bpk",
        ];
        for name in names {
            fs::write(dir.path().join(name), b"x").unwrap();
        }
        let best = |stage, epoch| BestEpoch {
            stage,
            epoch,
            accuracy: Default::default(),
        };
        let run = RunDir::create(dir.path(), false).unwrap();
        keep_best(&run, &[best(0, 5), best(1, 3)]);
        let left = names.map(|name| dir.path().join(name).exists());
        assert_eq!(left, [false, true, true, true]);
    }
}
