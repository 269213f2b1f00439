//! Reports as tables for people.

use std::fmt;

use super::{DensityReport, LayerReport};
use crate::nn::layer_label;

/// Heading and cells of a column; columns in which no row has anything are left out.
struct Column {
    heading: &'static str,
    left: bool,
    cells: Vec<String>,
}

impl fmt::Display for DensityReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<Column> = columns(self)
            .into_iter()
            .filter(|column| column.cells.iter().any(|cell| !cell.is_empty()))
            .collect();
        if let Some(step) = self.step {
            writeln!(f, "step {step}")?;
        }
        let rows = self.layers.len() + 1;
        for row in 0..=rows {
            let mut line = String::new();
            for column in &columns {
                let lengths = column.cells.iter().map(|cell| cell.chars().count());
                let width = lengths.max().unwrap_or(0).max(column.heading.len());
                let cell = match row {
                    0 => column.heading,
                    _ => &column.cells[row - 1],
                };
                let gap = if line.is_empty() { "" } else { "  " };
                line += &match column.left {
                    true => format!("{gap}{cell:<width$}"),
                    false => format!("{gap}{cell:>width$}"),
                };
            }
            match row == rows {
                true => write!(f, "{}", line.trim_end())?,
                false => writeln!(f, "{}", line.trim_end())?,
            }
        }
        Ok(())
    }
}

fn columns(report: &DensityReport) -> Vec<Column> {
    let total = &report.total;
    let column = |heading, cell: &dyn Fn(&LayerReport) -> String, total: String| Column {
        heading,
        left: heading == "layer",
        cells: report.layers.iter().map(cell).chain([total]).collect(),
    };
    let history = |layer: &LayerReport, value: fn(&super::LayerHistory, f64) -> f64| {
        let size = layer.size() as f64;
        optional(layer.history.map(|history| percent(value(&history, size))))
    };
    vec![
        column(
            "layer",
            &|layer| layer_label(&layer.name).to_string(),
            "total".into(),
        ),
        column(
            "out x in",
            &|layer| format!("{} x {}", layer.shape[0], layer.shape[1]),
            String::new(),
        ),
        column("nnz", &|layer| layer.nnz.to_string(), total.nnz.to_string()),
        column(
            "density",
            &|layer| percent(layer.density),
            percent(total.density),
        ),
        column(
            "target",
            &|layer| optional(layer.target_density.map(percent)),
            optional(total.target_density.map(percent)),
        ),
        column(
            "dead out",
            &|layer| layer.fan_in.dead.to_string(),
            total.dead_outputs.to_string(),
        ),
        column(
            "dead in",
            &|layer| layer.fan_out.dead.to_string(),
            total.dead_inputs.to_string(),
        ),
        column("fan-in", &|layer| degrees(&layer.fan_in), String::new()),
        column("fan-out", &|layer| degrees(&layer.fan_out), String::new()),
        column(
            "kept",
            &|layer| history(layer, |history, _| history.share_of_previous()),
            optional(total.kept_previous.map(percent)),
        ),
        column(
            "of first",
            &|layer| history(layer, |history, _| history.share_of_initial()),
            optional(total.kept_initial.map(percent)),
        ),
        column(
            "explored",
            &|layer| {
                history(layer, |history, size| {
                    history.explored as f64 / size.max(1.0)
                })
            },
            optional(total.explored.map(percent)),
        ),
        column(
            "functional",
            &|layer| {
                optional(
                    layer
                        .functional
                        .map(|count| percent(part(count, layer.nnz))),
                )
            },
            optional(
                total
                    .functional
                    .map(|count| percent(part(count, total.nnz))),
            ),
        ),
        column(
            "bytes",
            &|layer| layer.memory.total().to_string(),
            total.memory.total().to_string(),
        ),
        column(
            "of dense",
            &|layer| percent(layer.memory.ratio()),
            percent(total.memory.ratio()),
        ),
    ]
}

/// Mean and coefficient of variation.
fn degrees(degrees: &super::Degrees) -> String {
    format!("{:.1} cv {:.2}", degrees.mean, degrees.cv)
}

fn part(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}

/// Three significant digits are enough to read, from 100 % down to a thousandth of it.
fn percent(share: f64) -> String {
    let value = 100.0 * share;
    match value {
        10.0.. => format!("{value:.1} %"),
        1.0.. => format!("{value:.2} %"),
        _ => format!("{value:.3} %"),
    }
}

fn optional(value: Option<String>) -> String {
    value.unwrap_or_default()
}
