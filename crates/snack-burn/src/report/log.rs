use std::sync::Arc;

use burn::module::Module;
use burn::optim::ModuleOptimizer;
use serde::Serialize;

use super::{DensityReport, LayerHistory, ReportConfig};
use crate::dst::{DstError, History};
use crate::nn::{FoundLayer, find_layers};
use crate::pattern::Pattern;

/// The reports of a training run, one for each topology update or as often as asked.
///
/// Record the model before training and after updates; every report then says what was kept of the
/// one before and of the first, and how much was ever active.
///
/// ```
/// use burn::optim::{GradientsParams, SgdConfig};
/// use burn::tensor::{Device, Distribution, Tensor};
/// use snack_burn::prelude::*;
/// use snack_burn::report::TopologyLog;
///
/// let device = Device::default().autodiff();
/// let mut model = SparseLinearConfig::new(20, 10).with_sparsity(0.8).init(&device);
/// let mut optim = SgdConfig::new().init();
/// let mut dst = DstConfig::set().with_every(2).init(&model)?;
/// let mut log = TopologyLog::default();
/// log.record(0, &model, None)?;
/// for step in 1..=4 {
///     let x = Tensor::<2>::random([8, 20], Distribution::Default, &device);
///     let loss = model.forward(x).powi_scalar(2).mean();
///     let grads = GradientsParams::from_grads(loss.backward(), &model);
///     model = optim.step(0.1, model, grads);
///     (model, optim) = dst.step(model, optim);
///     if dst.last_update().is_some() {
///         log.record(step, &model, Some(&optim))?;
///     }
/// }
/// assert_eq!(log.reports().len(), 3);
/// assert_eq!(log.reports()[1].total.kept_previous, Some(0.7));
/// # Ok::<(), snack_burn::dst::DstError>(())
/// ```
#[derive(Debug, Clone, Default, Serialize)]
pub struct TopologyLog {
    reports: Vec<DensityReport>,
    #[serde(skip)]
    config: ReportConfig,
    #[serde(skip)]
    past: Vec<Past>,
}

/// What is known of a layer from earlier reports.
#[derive(Debug, Clone)]
struct Past {
    name: String,
    initial: Arc<Pattern>,
    previous: Arc<Pattern>,
    explored: History,
}

impl TopologyLog {
    /// A log whose reports say what `config` asks for.
    pub fn new(config: ReportConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Adds a report on the model after an optimizer step.
    ///
    /// A layer that was not in the report before, or had another shape there, starts anew.
    ///
    /// # Errors
    ///
    /// [`DstError`] if a layer of the configured graph is not in the model, or has another shape;
    /// nothing is added then.
    ///
    /// # Panics
    ///
    /// Panics if the optimizer cannot be recorded.
    pub fn record<M: Module>(
        &mut self,
        step: u64,
        model: &M,
        optimizer: Option<&ModuleOptimizer>,
    ) -> Result<&DensityReport, DstError> {
        let layers = find_layers(model);
        let mut report = self.config.describe(&layers, optimizer)?;
        report.step = Some(step);
        let mut past = std::mem::take(&mut self.past);
        for (layer, report) in layers.into_iter().zip(&mut report.layers) {
            let known = past
                .iter()
                .position(|past| past.belongs_to(&layer))
                .map(|index| past.swap_remove(index));
            let (history, past) = match known {
                Some(past) => past.advance(layer),
                None => Past::start(layer),
            };
            report.history = Some(history);
            self.past.push(past);
        }
        report.sum_up();
        self.reports.push(report);
        Ok(self.reports.last().expect("a report was just added"))
    }

    /// All reports, in the order in which they were recorded.
    pub fn reports(&self) -> &[DensityReport] {
        &self.reports
    }

    /// The lines of all reports under one heading; see [`DensityReport::to_csv`].
    pub fn to_csv(&self) -> String {
        super::csv::csv(&self.reports)
    }
}

impl Past {
    fn belongs_to(&self, layer: &FoundLayer) -> bool {
        self.name == layer.name && self.initial.shape() == layer.pattern.pattern().shape()
    }

    fn start(layer: FoundLayer) -> (LayerHistory, Self) {
        let nnz = layer.pattern.pattern().nnz();
        let history = LayerHistory {
            kept_previous: nnz,
            previous: nnz,
            kept_initial: nnz,
            initial: nnz,
            explored: nnz as u64,
        };
        let past = Self {
            name: layer.name,
            initial: layer.pattern.pattern().clone(),
            previous: layer.pattern.pattern().clone(),
            explored: History::new(layer.pattern.pattern()),
        };
        (history, past)
    }

    fn advance(self, layer: FoundLayer) -> (LayerHistory, Self) {
        let new = layer.pattern.pattern().clone();
        let overlap = |old: &Pattern| old.overlap(&new).expect("the shapes are equal");
        let mut explored = self.explored;
        explored.record(&new).expect("the shapes are equal");
        let history = LayerHistory {
            kept_previous: overlap(&self.previous),
            previous: self.previous.nnz(),
            kept_initial: overlap(&self.initial),
            initial: self.initial.nnz(),
            explored: explored.count(),
        };
        let past = Self {
            previous: new,
            explored,
            ..self
        };
        (history, past)
    }
}
