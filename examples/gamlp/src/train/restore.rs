//! Models and stages as the files of a run describe them.

use super::{BestEpoch, Counters, RunDir, RunState, Stage, TrainOptions, best_model};
use crate::{Gamlp, GamlpError, NodeTask};
use burn::{store::ModuleRecord, tensor::Device};
use snack_burn::prelude::*;
use std::path::Path;

/// The stage of the counters, taught by the recorded models of those before.
///
/// # Errors
///
/// As [`Trainer::resume`](super::Trainer::resume).
pub(crate) fn restore_stage(
    options: &TrainOptions,
    task: NodeTask,
    counters: &Counters,
    device: &Device,
    dir: &RunDir,
) -> Result<Stage, GamlpError> {
    let mut stage = Stage::first(task, options);
    for (index, best) in (1..=counters.stage).zip(&counters.best) {
        let teacher = load_best(options, best, device, dir)?;
        let device = device.clone().without_autodiff();
        stage = stage.next(&teacher, options, index, &device)?;
    }
    Ok(stage)
}

/// A recorded best model, in evaluation mode.
///
/// # Errors
///
/// As [`Trainer::resume`](super::Trainer::resume), among them [`GamlpError::ForeignBest`] if the file
/// has been replaced by that of another run.
pub(crate) fn load_best(
    options: &TrainOptions,
    best: &BestEpoch,
    device: &Device,
    dir: &RunDir,
) -> Result<Gamlp, GamlpError> {
    let path = best_model(dir, best);
    let checkpoint = Checkpoint::load(&path)?;
    let state = RunState::from_value(&checkpoint.user, &path)?;
    let differences = state.options.differences(options);
    let same_run = differences.iter().all(|difference| difference.allowed);
    if !same_run || state.counters.best.get(best.stage) != Some(best) {
        return Err(GamlpError::ForeignBest { path });
    }
    restore_model(
        options,
        checkpoint.model,
        &device.clone().without_autodiff(),
        &path,
    )
}

/// The model of a checkpoint whose run had these options.
///
/// # Errors
///
/// [`GamlpError::ForeignCheckpoint`] if the record does not fit the options.
pub(crate) fn restore_model(
    options: &TrainOptions,
    record: ModuleRecord,
    device: &Device,
    path: &Path,
) -> Result<Gamlp, GamlpError> {
    let model = options.model.init(options.seed, device);
    model
        .try_load_sparse_record(record)
        .map_err(|error| GamlpError::ForeignCheckpoint {
            path: path.to_owned(),
            reason: error.to_string(),
        })
}
