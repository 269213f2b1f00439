use super::{Accuracy, LogLine, RunDir, run_dir::PICTURES};
use crate::GamlpError;
use example_support::replace_file;
use snack_burn::report::plot;

/// A quantity over the steps.
type Points = Vec<(u64, f64)>;

/// Draws the log of a run: loss, accuracies, density and memory, as `loss.svg`, `accuracy.svg`,
/// `density.svg` and `memory.svg`. What was never measured has no picture.
///
/// # Errors
///
/// [`GamlpError::Log`] and [`GamlpError::File`].
pub fn write_pictures(dir: &RunDir) -> Result<(), GamlpError> {
    let lines = LogLine::read_all(&dir.log())?;
    let points = |value: &dyn Fn(&LogLine) -> Option<f64>| -> Points {
        let points = lines
            .iter()
            .filter_map(|line| Some((line.step as u64, value(line)?)));
        points.collect()
    };
    let updates = lines.iter().filter(|line| line.update.is_some());
    let updates: Vec<u64> = updates.map(|line| line.step as u64).collect();
    let loss = [("", points(&|line| Some(line.loss)))];
    let accuracy = |part: fn(&Accuracy) -> Option<f64>| {
        points(&|line| Some(100.0 * part(line.accuracy.as_ref()?)?))
    };
    let accuracies = [
        ("to learn from", accuracy(|accuracy| accuracy.train)),
        ("to select by", accuracy(|accuracy| Some(accuracy.valid))),
        ("to judge by", accuracy(|accuracy| accuracy.test)),
    ];
    let density = [("", points(&|line| Some(100.0 * line.density)))];
    let memory = [
        (
            "held for the run",
            points(&|line| Some(line.reserved_bytes? as f64 / 1e6)),
        ),
        (
            "on the GPU (NVML)",
            points(&|line| Some(line.nvml_bytes? as f64 / 1e6)),
        ),
    ];
    let pictures = [
        plot::curves("Training loss", "nats per node", &loss, &updates),
        plot::curves("Nodes classified correctly", "%", &accuracies, &updates),
        plot::curves(
            "Weights that exist of sparse matrices",
            "%",
            &density,
            &updates,
        ),
        plot::curves("Device memory", "MB", &memory, &updates),
    ];
    for (name, picture) in PICTURES.into_iter().zip(pictures) {
        if let Ok(picture) = picture {
            replace_file(&dir.path().join(name), picture.as_bytes())?;
        }
    }
    Ok(())
}
