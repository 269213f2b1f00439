use super::infer::{InferArgs, Loaded, load_run};
use crate::{ConfigError, DeviceChoice, GamlpError, Predictor};
use core::fmt;
use serde::Serialize;

/// What a trained model takes a node for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassifiedNode {
    /// The node.
    pub node: u32,
    /// Its most probable class.
    pub class: usize,
    /// The probability of that class.
    pub probability: f32,
    /// The class that the graph gives, if it gives one.
    pub label: Option<u32>,
    /// The name of `class`, if the data set names its classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_name: Option<String>,
    /// The name of `label`, where there are both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_name: Option<String>,
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

/// A line of headings, and one for every node, with tabs between; the names of classes come last, if
/// there are any.
impl fmt::Display for Classification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.0.iter().any(|node| node.class_name.is_some());
        write!(f, "node\tclass\tprobability\tlabel")?;
        if named {
            write!(f, "\tclass name\tlabel name")?;
        }
        for node in &self.0 {
            let label = node.label.map_or("-".into(), |label| label.to_string());
            let ClassifiedNode {
                node: number,
                class,
                probability,
                ..
            } = node;
            write!(f, "\n{number}\t{class}\t{probability:.4}\t{label}")?;
            if named {
                let names = [&node.class_name, &node.label_name];
                let [class, label] = names.map(|name| name.as_deref().unwrap_or("-"));
                write!(f, "\t{class}\t{label}")?;
            }
        }
        Ok(())
    }
}

/// Classifies the nodes of `--classify`, one by one, with the best model of `--run`.
///
/// # Errors
///
/// [`GamlpError::Config`] if there is no such node or no `--run`, and those of [`infer`](super::infer())
/// about the files of a run; [`GamlpError::Data`] if names of classes cannot be read.
pub fn classify(args: &InferArgs) -> Result<Classification, GamlpError> {
    let Some(dir) = &args.run else {
        let allowed = "given with --run, whose model it asks";
        return Err(ConfigError::new("--classify", listed(&args.classify), allowed).into());
    };
    let choice = args.device.unwrap_or_else(DeviceChoice::first);
    let (loaded, device) = load_run(args, dir, choice)?;
    let Loaded {
        model,
        task,
        options,
        ..
    } = loaded;
    let names = options.graph.class_names(task.classes())?;
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
        let label = task.label_of(node);
        let name = |class: usize| Some(names.as_ref()?.of(class).to_string());
        ClassifiedNode {
            node,
            class,
            probability,
            label,
            class_name: name(class),
            label_name: label.and_then(|label| name(label as usize)),
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
            class_name: None,
            label_name: None,
        };
        let labelled = ClassifiedNode {
            label: Some(2),
            ..node.clone()
        };
        let found = Classification(vec![node, labelled]);
        assert_eq!(
            found.to_string(),
            "node\tclass\tprobability\tlabel\n17\t3\t0.9123\t-\n17\t3\t0.9123\t2"
        );
        let mut named = found.clone();
        for node in &mut named.0 {
            node.class_name = Some("Toys & Games".into());
            node.label_name = node.label.map(|_| "Books".into());
        }
        assert_eq!(
            named.to_string(),
            "node\tclass\tprobability\tlabel\tclass name\tlabel name\n\
             17\t3\t0.9123\t-\tToys & Games\t-\n17\t3\t0.9123\t2\tToys & Games\tBooks"
        );
        assert!(!found.to_json().to_string().contains("name"));
        let first = &named.to_json()[0];
        assert_eq!(first["class_name"], "Toys & Games");
        assert!(first.get("label_name").is_none());
    }
}
