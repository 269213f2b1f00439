use super::Adjacency;
use crate::FeatureMatrix;
use burn::tensor::{Device, Tensor, TensorData};
use snack_burn::tensor::{DevicePattern, SparseTensor};

/// Numbers of a block of columns that is propagated at once: 256 MiB.
const BLOCK: usize = 1 << 26;

/// The mean over neighbours as a sparse matrix `P = D^-1 A` on a device: `A[v, u]` is the number of edges
/// from `u` to `v`, `D` the diagonal of in-degrees.
///
/// A node without incoming edges receives zeros. This is neither the symmetric normalization nor one
/// with self-loops: the published GAMLP has neither.
#[derive(Debug, Clone)]
pub struct Propagator {
    matrix: SparseTensor,
    block: usize,
}

impl Propagator {
    /// Uploads the matrix.
    pub fn new(adjacency: &Adjacency, device: &Device) -> Self {
        let values = adjacency.row_means();
        let values = Tensor::from_data(TensorData::from(&values[..]), device);
        let pattern = DevicePattern::new(adjacency.pattern().clone(), device);
        Self {
            matrix: SparseTensor::new(values, pattern),
            block: BLOCK,
        }
    }

    /// Lets at most `numbers` features be on the device at once in [`hops`](Self::hops), or one
    /// column where that has more.
    pub fn with_block(mut self, numbers: usize) -> Self {
        self.block = numbers;
        self
    }

    /// The matrix.
    pub fn matrix(&self) -> &SparseTensor {
        &self.matrix
    }

    /// One propagation.
    ///
    /// # Shapes
    ///
    /// - features: `[nodes, width]`
    /// - output: `[nodes, width]`
    ///
    /// # Panics
    ///
    /// Panics if there is another number of nodes.
    pub fn forward(&self, features: Tensor<2>) -> Tensor<2> {
        self.matrix.matmul(features)
    }

    /// Propagates features `count` times and returns the result of every time, the features as
    /// given not among them. Columns do not depend on each other, so they visit the device in blocks;
    /// the results are on the host.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of nodes.
    pub fn hops(&self, features: &FeatureMatrix, count: usize) -> Vec<FeatureMatrix> {
        let mut hops = vec![
            FeatureMatrix {
                width: features.width,
                values: vec![0.0; features.values.len()],
            };
            count
        ];
        self.each_block(features, count, |hop, columns, values| {
            scatter(&mut hops[hop], columns, values);
        });
        hops
    }

    /// The last of `count` propagations alone; the input if there is none.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of nodes.
    pub fn last_hop(&self, features: &FeatureMatrix, count: usize) -> FeatureMatrix {
        let mut last = features.clone();
        self.each_block(features, count, |hop, columns, values| {
            if hop + 1 == count {
                scatter(&mut last, columns, values);
            }
        });
        last
    }

    /// Calls `take` with the number of a hop, a range of columns, and their values row by row.
    fn each_block(
        &self,
        features: &FeatureMatrix,
        count: usize,
        mut take: impl FnMut(usize, core::ops::Range<usize>, &[f32]),
    ) {
        let [nodes, _] = self.matrix.dims();
        let width = features.width;
        assert_eq!(
            features.values.len(),
            nodes * width,
            "Propagator: the graph has {nodes} nodes of {width} features each"
        );
        let step = (self.block / nodes.max(1)).max(1);
        for start in (0..width).step_by(step) {
            let columns = start..(start + step).min(width);
            let rows = features.values.chunks_exact(width);
            let block: Vec<f32> = rows
                .flat_map(|row| &row[columns.clone()])
                .copied()
                .collect();
            let data = TensorData::new(block, [nodes, columns.len()]);
            let mut x = Tensor::<2>::from_data(data, &self.matrix.device());
            for hop in 0..count {
                x = self.forward(x);
                let data = x.clone().into_data();
                let values = data.as_slice::<f32>().expect("features are f32");
                take(hop, columns.clone(), values);
            }
        }
    }
}

fn scatter(hop: &mut FeatureMatrix, columns: core::ops::Range<usize>, values: &[f32]) {
    let rows = hop.values.chunks_exact_mut(hop.width);
    for (row, values) in rows.zip(values.chunks_exact(columns.len())) {
        row[columns.clone()].copy_from_slice(values);
    }
}
