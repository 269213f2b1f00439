use super::{NodeBatch, NodeInputs, Part};
use crate::NodeSplit;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use std::sync::Arc;

/// Says that a node has no row.
const ABSENT: u32 = u32::MAX;
/// Rows that are sent at once.
const BLOCK: usize = 1 << 16;

/// The inputs of some nodes on a device, where batches of them are gathered without the host.
#[derive(Debug, Clone)]
pub struct DeviceRows {
    /// The row of every node of the graph.
    row_of: Arc<[u32]>,
    rows: NodeBatch,
}

impl DeviceRows {
    /// Uploads the rows of those parts of the graph that fit into `bytes` one after another, the
    /// nodes to learn from first; nothing if not even those do.
    pub fn new(
        inputs: &NodeInputs,
        split: &NodeSplit,
        bytes: u64,
        device: &Device,
    ) -> Option<Self> {
        let matrices = inputs.hops().iter().chain([inputs.label_embedding()]);
        let width: usize = matrices.map(|matrix| matrix.width()).sum();
        let most = bytes / (width * size_of::<f32>()) as u64;
        let mut nodes: Vec<u32> = Vec::new();
        for part in Part::ALL {
            let part = part.of(split);
            if (nodes.len() + part.len()) as u64 > most {
                break;
            }
            nodes.extend(part);
        }
        if nodes.is_empty() {
            return None;
        }
        let first = &inputs.hops()[0];
        let mut row_of = vec![ABSENT; first.values().len() / first.width().max(1)];
        for (row, &node) in nodes.iter().enumerate() {
            row_of[node as usize] = row as u32;
        }
        Some(Self {
            row_of: row_of.into(),
            rows: upload(inputs, &nodes, BLOCK, &device.clone().without_autodiff()),
        })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.label_embedding.dims()[0]
    }

    /// If there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The inputs of some nodes, in their order, if they all have rows.
    ///
    /// # Panics
    ///
    /// Panics if the graph has no such node.
    pub fn batch(&self, nodes: &[u32], autodiff: bool) -> Option<NodeBatch> {
        let rows = nodes.iter().map(|&node| match self.row_of[node as usize] {
            ABSENT => None,
            row => Some(row as i32),
        });
        let rows: Vec<i32> = rows.collect::<Option<_>>()?;
        let device = self.rows.label_embedding.device();
        let data = TensorData::new(rows, [nodes.len()]);
        let rows = Tensor::<1, Int>::from_data(data, (&device, DType::I32));
        Some(NodeBatch {
            hops: gather(&self.rows.hops, &rows, autodiff),
            label_embedding: gather(&self.rows.label_embedding, &rows, autodiff),
        })
    }
}

/// The inputs of some nodes, sent in blocks, so that the host need not hold all of them twice.
fn upload(inputs: &NodeInputs, nodes: &[u32], block: usize, device: &Device) -> NodeBatch {
    let mut blocks = nodes.chunks(block).map(|nodes| inputs.batch(nodes, device));
    let first = blocks.next().expect("there are nodes");
    if nodes.len() <= block {
        return first;
    }
    let [_, hops, features] = first.hops.dims();
    let [_, classes] = first.label_embedding.dims();
    let mut all = NodeBatch {
        hops: Tensor::zeros([nodes.len(), hops, features], device),
        label_embedding: Tensor::zeros([nodes.len(), classes], device),
    };
    for (index, part) in core::iter::once(first).chain(blocks).enumerate() {
        let start = index * block;
        let end = start + part.label_embedding.dims()[0];
        all.hops = all.hops.slice_assign(start..end, part.hops);
        all.label_embedding = (all.label_embedding).slice_assign(start..end, part.label_embedding);
    }
    all
}

fn gather<const D: usize>(matrix: &Tensor<D>, rows: &Tensor<1, Int>, autodiff: bool) -> Tensor<D> {
    let found = matrix.clone().select(0, rows.clone());
    match autodiff {
        true => Tensor::from_inner(found),
        false => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FeatureMatrix, NodeMatrix};

    #[test]
    fn blocks_make_the_same_rows_as_one() {
        let device = Device::default();
        let matrix = |width: usize| {
            let values = (0..10 * width).map(|x| x as f32).collect();
            NodeMatrix::from(FeatureMatrix { width, values })
        };
        let inputs = NodeInputs::from_matrices(vec![matrix(3), matrix(3)], matrix(2));
        let nodes = [7, 1, 9, 0, 3];
        let whole = inputs.batch(&nodes, &device);
        for block in [1, 2, 4, 5, 6] {
            let found = upload(&inputs, &nodes, block, &device);
            let same = |a: burn::tensor::TensorData, b| a.assert_eq(&b, true);
            same(found.hops.into_data(), whole.hops.to_data());
            let labels = found.label_embedding.into_data();
            same(labels, whole.label_embedding.to_data());
        }
    }
}
