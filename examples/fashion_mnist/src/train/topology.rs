use crate::Options;
use burn::{module::Module, optim::ModuleOptimizer};
use snack_burn::{
    dst::{DstError, GrowConfig, LayerScaling},
    prelude::Dst,
    report::{DensityReport, ReportConfig, TopologyInput, TopologyLog},
};
use std::time::Duration;

/// The changing topology of a run, and what an epoch saw of it; shared by the plain loop and the
/// model that Burn's `Learner` trains.
#[derive(Debug)]
pub struct Topology {
    dst: Dst,
    log: TopologyLog,
    input: TopologyInput,
    steps_per_epoch: u64,
    step: u64,
    epochs: Vec<EpochTopology>,
}

/// What happened to the topology in an epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EpochTopology {
    /// Connections that updates replaced.
    pub replaced: usize,
    /// Connections at the end of the epoch.
    pub nnz: usize,
    /// Time spent in steps and updates.
    pub time: Duration,
}

impl Topology {
    /// The topology of a model before its first step, and what has to follow it.
    ///
    /// # Errors
    ///
    /// [`DstError`] if the method refuses the model or its numbers.
    pub fn new<M: Module>(
        options: &Options,
        seed: u64,
        model: &M,
        scaling: Option<LayerScaling>,
        steps_per_epoch: u64,
    ) -> Result<Self, DstError> {
        let rule = options.topology(seed, steps_per_epoch);
        let mut dst = rule.init(model)?;
        if let Some(scaling) = scaling {
            dst.register(scaling);
        }
        let mut config = ReportConfig::chain(model)?;
        if rule.grow != GrowConfig::Nothing {
            let layers = DensityReport::of(model).layers.into_iter();
            config.targets = layers.map(|layer| (layer.name, layer.density)).collect();
        }
        let mut log = TopologyLog::new(config);
        log.record(0, model, None)?;
        Ok(Self {
            dst,
            log,
            input: TopologyInput::of(model, None),
            steps_per_epoch,
            step: 0,
            epochs: Vec::new(),
        })
    }

    /// Lets the backward pass of this copy of the model count.
    pub fn listen_to<M: Module>(&self, model: &M) {
        self.dst.listen_to(model);
    }

    /// Counts an optimizer step that took some time and updates the topology if its time has come.
    ///
    /// # Returns
    ///
    /// The model, as it was if the update fails, and how the update or the report on it went.
    pub fn after_step<M: Module>(
        &mut self,
        model: M,
        optim: &mut ModuleOptimizer,
        time: impl FnOnce() -> Duration,
    ) -> (M, Result<(), DstError>) {
        self.step += 1;
        self.input.replaced = 0;
        let (model, result) = self.dst.try_step(model, optim);
        if result.is_err() {
            return (model, result);
        }
        let update = self
            .dst
            .last_update()
            .filter(|update| update.skipped.is_none());
        if update.is_some() {
            self.input = TopologyInput::of(&model, update);
        }
        let epoch = ((self.step - 1) / self.steps_per_epoch) as usize;
        if self.epochs.len() <= epoch {
            self.epochs.push(EpochTopology::default());
        }
        let epoch = &mut self.epochs[epoch];
        epoch.replaced += self.input.replaced;
        epoch.nnz = self.input.nnz;
        epoch.time += time();
        let result = match update {
            Some(_) => self.log.record(self.step, &model, Some(optim)).map(drop),
            None => Ok(()),
        };
        (model, result)
    }

    /// Steps so far.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// For metrics: the connections, and how many the newest step replaced.
    pub fn input(&self) -> TopologyInput {
        self.input
    }

    /// What happened in an epoch, counted from 0; nothing if it has not begun.
    pub fn epoch(&self, epoch: usize) -> EpochTopology {
        self.epochs.get(epoch).copied().unwrap_or_default()
    }

    /// The reports on the model before the first step and after every update.
    pub fn log(&self) -> &TopologyLog {
        &self.log
    }

    /// The reports, when the run is over.
    pub fn into_log(self) -> TopologyLog {
        self.log
    }
}
