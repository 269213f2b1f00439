//! Which nodes serve for what.

use super::{DataError, LineFault, NodeSplit, graph_data::Labels, lines::read_lines, parse};
use std::path::Path;

/// The splits, in the order in which they are read.
pub(super) const PARTS: [&str; 3] = ["train", "valid", "test"];

/// Reads the three files of a split folder.
pub(super) fn read_split(folder: &Path, labels: &Labels) -> Result<NodeSplit, DataError> {
    let mut taken = vec![None; labels.len()];
    let mut read = |part: &'static str| {
        let path = folder.join(format!("{part}.csv.gz"));
        let mut nodes: Vec<u32> = Vec::new();
        let parse = |line: &[u8], nodes: &mut Vec<u32>| {
            let node = parse::node(line, labels.len())?;
            if labels.get(node).is_none() {
                return Err(LineFault::Unlabelled { node });
            }
            nodes.push(node);
            Ok(())
        };
        read_lines(&path, parse, |block| nodes.extend(block))?;
        if nodes.is_empty() {
            return Err(DataError::EmptySplit { path });
        }
        for (line, &node) in (1..).zip(&nodes) {
            if let Some(split) = taken[node as usize].replace(part) {
                let fault = LineFault::Repeated { node, split };
                return Err(DataError::Line { path, line, fault });
            }
        }
        Ok(nodes)
    };
    let [train, valid, test] = PARTS;
    Ok(NodeSplit {
        train: read(train)?,
        valid: read(valid)?,
        test: read(test)?,
    })
}
