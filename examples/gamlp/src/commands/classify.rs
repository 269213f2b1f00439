use super::infer::{InferArgs, Loaded, load_run};
use crate::{ConfigError, DeviceChoice, GamlpError, Predictor};
use core::fmt;
use serde::Serialize;

/// What a trained model takes a node for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassifiedNode {
    /// The node.
    pub node: u32,
    /// Its most probable class.
    pub class: usize,
    /// The probability of that class.
    pub probability: f32,
    /// The class that the graph gives, if it gives one.
    pub label: Option<u32>,
}

/// Nodes and their classes, in the order that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Classification(pub Vec<ClassifiedNode>);

impl Classification {
    /// One JSON array.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).expect("numbers become JSON")
    }
}

/// A line of names, and one for every node, with tabs between.
impl fmt::Display for Classification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node\tclass\tprobability\tlabel")?;
        for node in &self.0 {
            let ClassifiedNode {
                node,
                class,
                probability,
                label,
            } = node;
            let label = label.map_or("-".into(), |label| label.to_string());
            write!(f, "\n{node}\t{class}\t{probability:.4}\t{label}")?;
        }
        Ok(())
    }
}

/// Classifies the nodes of `--classify`, one by one, with the best model of `--run`.
///
/// # Errors
///
/// [`GamlpError::Config`] if there is no such node or no `--run`, and those of [`infer`](super::infer())
/// about the files of a run.
pub fn classify(args: &InferArgs) -> Result<Classification, GamlpError> {
    let Some(dir) = &args.run else {
        let allowed = "given with --run, whose model it asks";
        return Err(ConfigError::new("--classify", listed(&args.classify), allowed).into());
    };
    let choice = args.device.unwrap_or_else(DeviceChoice::first);
    let (Loaded { model, task, .. }, device) = load_run(args, dir, choice)?;
    let nodes = task.nodes();
    if let Some(node) = args.classify.iter().find(|&&node| node as usize >= nodes) {
        let allowed = format!("between 0 and {}: the graph has {nodes} nodes", nodes - 1);
        return Err(ConfigError::new("--classify", node, allowed).into());
    }
    let layout = task.inputs().layout();
    let mut predictor = Predictor::of_model(&model, layout, 1, !args.no_capture, &device);
    let classify = |&node: &u32| {
        let logits = predictor.predict(&task.packed(&[node]));
        let (class, probability) = most_probable(&logits);
        ClassifiedNode {
            node,
            class,
            probability,
            label: task.label_of(node),
        }
    };
    Ok(Classification(args.classify.iter().map(classify).collect()))
}

fn listed(nodes: &[u32]) -> String {
    let nodes: Vec<_> = nodes.iter().map(u32::to_string).collect();
    nodes.join(",")
}

/// The first class of the largest logit, and its softmax.
fn most_probable(logits: &[f32]) -> (usize, f32) {
    let mut best = 0;
    for (class, &logit) in logits.iter().enumerate() {
        if logit > logits[best] {
            best = class;
        }
    }
    let sum: f32 = logits.iter().map(|x| (x - logits[best]).exp()).sum();
    (best, 1.0 / sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_largest_logit_wins() {
        let (class, probability) = most_probable(&[1.0, 3.0, 3.0]);
        let expected = 1.0 / (2.0 + (-2_f32).exp());
        assert_eq!(class, 1);
        assert!((probability - expected).abs() < 1e-6);
        assert_eq!(most_probable(&[1000.0, -1000.0]), (0, 1.0));
    }

    #[test]
    fn nodes_are_lines() {
        let node = ClassifiedNode {
            node: 17,
            class: 3,
            probability: 0.91234,
            label: None,
        };
        let label = Some(2);
        let found = Classification(vec![node, ClassifiedNode { label, ..node }]);
        assert_eq!(
            found.to_string(),
            "node\tclass\tprobability\tlabel\n17\t3\t0.9123\t-\n17\t3\t0.9123\t2"
        );
    }
}
