use crate::{DeviceChoice, Timing, WeightMode};
use core::fmt;
use example_support::{counted, grouped};
use serde::Serialize;

/// What `gamlp_infer` found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferReport {
    /// Where the weights came from.
    pub weights: String,
    /// The graph.
    pub graph: String,
    /// Where it computed.
    pub device: DeviceChoice,
    /// Storage of the matrices that may be sparse.
    pub mode: WeightMode,
    /// Share of their weights that does not exist.
    pub sparsity: Option<f64>,
    /// Numbers of the model that are trained, stored zeros included.
    pub parameters: usize,
    /// Bytes of those and of coordinates and masks.
    pub model_bytes: usize,
    /// Reserved by the memory pool of the device after all runs; absent on the host.
    pub reserved_bytes: Option<u64>,
    /// In use on the device after all runs: the model, and buffers of recorded graphs.
    pub in_use_bytes: Option<u64>,
    /// Bytes that all processes have on the GPU after all runs, where NVML says so.
    pub nvml_bytes: Option<u64>,
    /// The part of the graph that the accuracy is about.
    pub nodes: &'static str,
    /// Number of its nodes.
    pub node_count: usize,
    /// Share of them that is classified correctly; absent for random weights.
    pub accuracy: Option<f64>,
    /// Times.
    pub rows: Vec<InferRow>,
}

/// Times of a part of the model at a batch size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InferRow {
    /// `model`, or `head` for the square matrix of the feature head alone.
    pub part: &'static str,
    /// Nodes of a run.
    pub batch: usize,
    /// Whether the run was captured.
    pub captured: bool,
    /// Whether the device replays a hardware graph.
    pub hardware: bool,
    /// Runs that were timed.
    pub runs: usize,
    /// Forward passes over an input on the device.
    pub forward: Timing,
    /// The same with the input coming from the host and the output going there.
    pub answer: Timing,
}

impl InferRow {
    /// Nodes per second, of answers.
    pub fn nodes_per_second(&self) -> f64 {
        self.batch as f64 / self.answer.mean_us * 1e6
    }
}

impl InferReport {
    /// One JSON object; what was not measured is `null`.
    pub fn to_json(&self) -> serde_json::Value {
        let mut value = serde_json::to_value(self).expect("a report is plain data");
        let rows = value["rows"].as_array_mut().into_iter().flatten();
        for (json, row) in rows.zip(&self.rows) {
            json["nodes_per_second"] = row.nodes_per_second().into();
        }
        value
    }
}

impl fmt::Display for InferReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sparsity = self
            .sparsity
            .map(|sparsity| format!(" at sparsity {sparsity}"));
        writeln!(
            f,
            "{} weights from {}, on {}: {} parameters{}, {} bytes",
            self.mode,
            self.weights,
            self.device,
            grouped(self.parameters as u64),
            sparsity.unwrap_or_default(),
            grouped(self.model_bytes as u64)
        )?;
        if let (Some(reserved), Some(used)) = (self.reserved_bytes, self.in_use_bytes) {
            let (reserved, used) = (grouped(reserved), grouped(used));
            write!(f, "device memory: {reserved} bytes reserved, {used} in use")?;
            if let Some(nvml) = self.nvml_bytes {
                write!(f, ", NVML says {}", grouped(nvml))?;
            }
            writeln!(f)?;
        }
        if let Some(accuracy) = self.accuracy {
            let nodes = counted(self.node_count, "node");
            writeln!(
                f,
                "accuracy on the {nodes} of the {} split of {}: {accuracy:.4}",
                self.nodes, self.graph
            )?;
        }
        writeln!(
            f,
            "\n{:<6}{:>7}  {:<10}{:>14}{:>11}{:>14}{:>11}{:>12}{:>14}",
            "part", "batch", "run", "forward, us", "95 %", "answer, us", "95 %", "mJ", "nodes/s"
        )?;
        for row in &self.rows {
            let run = match (row.captured, row.hardware) {
                (false, _) => "eager",
                (true, true) => "captured",
                (true, false) => "repeated",
            };
            let energy = row.forward.mj.map_or("-".into(), |mj| format!("{mj:.3}"));
            writeln!(
                f,
                "{:<6}{:>7}  {run:<10}{:>14.1}{:>11.1}{:>14.1}{:>11.1}{energy:>12}{:>14}",
                row.part,
                row.batch,
                row.forward.median_us,
                row.forward.p95_us,
                row.answer.median_us,
                row.answer.p95_us,
                grouped(row.nodes_per_second() as u64)
            )?;
        }
        if self.rows.iter().any(|row| row.captured && !row.hardware) {
            writeln!(
                f,
                "repeated: the device records no graphs, so the pass runs again"
            )?;
        }
        Ok(())
    }
}
