use super::GraphData;
use core::fmt;
use example_support::{counted, grouped};

/// What is no fault of a graph, but may be one of whoever made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphNote {
    /// Classes that no node to learn from has: they are never learned.
    ClassesNotLearned {
        /// Number of such classes.
        found: usize,
        /// Number of all classes.
        classes: usize,
    },
    /// Nodes that no edge leads to.
    NodesWithoutEdges {
        /// Number of such nodes.
        found: usize,
        /// Number of all nodes.
        nodes: usize,
    },
}

impl fmt::Display for GraphNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ClassesNotLearned { found, classes } => write!(
                f,
                "{found} of {} without a node to learn from, and cannot be learned",
                match classes {
                    1 => "1 class is".to_string(),
                    _ => format!("{} classes are", grouped(classes as u64)),
                }
            ),
            Self::NodesWithoutEdges { found, nodes } => write!(
                f,
                "no edge leads to {} of {}: what is propagated to them is zero",
                grouped(found as u64),
                counted(nodes, "node")
            ),
        }
    }
}

impl GraphData {
    /// What whoever made the graph may not have meant.
    pub fn notes(&self) -> Vec<GraphNote> {
        let classes = self.labels.classes();
        let mut learned = vec![false; classes];
        for &node in &self.split.train {
            if let Some(class) = self.labels.get(node) {
                learned[class as usize] = true;
            }
        }
        let found = learned.iter().filter(|&&learned| !learned).count();
        let of_classes = GraphNote::ClassesNotLearned { found, classes };

        let nodes = self.nodes();
        let alone = self.in_degrees().iter().filter(|&&d| d == 0).count();
        let of_nodes = GraphNote::NodesWithoutEdges {
            found: alone,
            nodes,
        };
        let notes = [(found, of_classes), (alone, of_nodes)];
        let notes = notes.into_iter().filter(|&(found, _)| found > 0);
        notes.map(|(_, note)| note).collect()
    }
}
