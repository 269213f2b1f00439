//! Reports as lines of comma-separated values.

use super::{Degrees, DensityReport, LayerReport, TotalReport};

const COLUMNS: &str = "step,layer,outputs,inputs,nnz,density,target_density,\
    dead_outputs,fan_in_min,fan_in_mean,fan_in_max,fan_in_cv,\
    dead_inputs,fan_out_min,fan_out_mean,fan_out_max,fan_out_cv,\
    kept_previous,kept_initial,explored,functional,\
    bytes_values,bytes_indices,bytes_moments,bytes_dense_values,bytes_dense_moments";

impl DensityReport {
    /// The names of the columns, then a line for each layer and one for all, named `total`. What is
    /// not known is empty; shares and densities are fractions of 1.
    pub fn to_csv(&self) -> String {
        csv([self])
    }
}

/// Lines of several reports under one heading.
pub(super) fn csv<'a>(reports: impl IntoIterator<Item = &'a DensityReport>) -> String {
    let mut text = format!("{COLUMNS}\n");
    for report in reports {
        let step = optional(report.step);
        for layer in &report.layers {
            line(&mut text, &step, &layer_fields(layer));
        }
        line(&mut text, &step, &total_fields(&report.total));
    }
    text
}

fn line(text: &mut String, step: &str, fields: &[String]) {
    text.push_str(step);
    for field in fields {
        text.push(',');
        text.push_str(field);
    }
    text.push('\n');
}

fn layer_fields(layer: &LayerReport) -> Vec<String> {
    let history = layer.history.as_ref();
    let explored = history.map(|history| match layer.size() {
        0 => 0.0,
        size => history.explored as f64 / size as f64,
    });
    let mut fields = vec![
        quoted(&layer.name),
        layer.shape[0].to_string(),
        layer.shape[1].to_string(),
        layer.nnz.to_string(),
        layer.density.to_string(),
        optional(layer.target_density),
    ];
    fields.extend(degrees(&layer.fan_in));
    fields.extend(degrees(&layer.fan_out));
    fields.extend([
        optional(history.map(|history| history.share_of_previous())),
        optional(history.map(|history| history.share_of_initial())),
        optional(explored),
        optional(layer.functional),
    ]);
    fields.extend(memory(&layer.memory));
    fields
}

fn total_fields(total: &TotalReport) -> Vec<String> {
    let empty = || [const { String::new() }; 4];
    let mut fields = vec![
        "total".into(),
        String::new(),
        String::new(),
        total.nnz.to_string(),
        total.density.to_string(),
        optional(total.target_density),
        total.dead_outputs.to_string(),
    ];
    fields.extend(empty());
    fields.push(total.dead_inputs.to_string());
    fields.extend(empty());
    fields.extend([
        optional(total.kept_previous),
        optional(total.kept_initial),
        optional(total.explored),
        optional(total.functional),
    ]);
    fields.extend(memory(&total.memory));
    fields
}

fn degrees(degrees: &Degrees) -> [String; 5] {
    [
        degrees.dead.to_string(),
        degrees.min.to_string(),
        degrees.mean.to_string(),
        degrees.max.to_string(),
        degrees.cv.to_string(),
    ]
}

fn memory(memory: &super::Memory) -> [String; 5] {
    [
        memory.values,
        memory.indices,
        memory.moments,
        memory.dense_values,
        memory.dense_moments,
    ]
    .map(|bytes| bytes.to_string())
}

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

/// A field in quotes if it needs them (RFC 4180).
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unusual_names_are_quoted() {
        assert_eq!(quoted("blocks.0.mlp"), "blocks.0.mlp");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
