use super::{LogLine, RunDir, run_dir::PICTURES};
use crate::Gpt2Error;
use example_support::replace_file;
use snack_burn::report::plot;

/// A quantity over the steps.
type Points = Vec<(u64, f64)>;

/// Draws the log of a run: losses, perplexity, density and memory, as `loss.svg`, `perplexity.svg`,
/// `density.svg` and `memory.svg`. What was never measured has no picture.
///
/// # Errors
///
/// [`Gpt2Error::Log`] and [`Gpt2Error::File`].
pub fn write_pictures(dir: &RunDir) -> Result<(), Gpt2Error> {
    let lines = LogLine::read_all(&dir.log())?;
    let points = |value: &dyn Fn(&LogLine) -> Option<f64>| -> Points {
        let points = lines
            .iter()
            .filter_map(|line| Some((line.step as u64, value(line)?)));
        points.collect()
    };
    let updates = lines.iter().filter(|line| line.update.is_some());
    let updates: Vec<u64> = updates.map(|line| line.step as u64).collect();
    let losses = [
        ("training", points(&|line| Some(line.loss))),
        ("held-out", points(&|line| line.val_loss)),
    ];
    let perplexity = [("", points(&|line| line.perplexity))];
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
        plot::curves("Loss", "nats per token", &losses, &updates),
        plot::curves("Held-out perplexity", "per token", &perplexity, &updates),
        plot::curves("MLP weights that exist", "%", &density, &updates),
        plot::curves("Device memory", "MB", &memory, &updates),
    ];
    for (name, picture) in PICTURES.into_iter().zip(pictures) {
        if let Ok(picture) = picture {
            replace_file(&dir.path().join(name), picture.as_bytes())?;
        }
    }
    Ok(())
}
