use super::Adjacency;
use crate::FeatureMatrix;
use burn::tensor::{Device, Tensor, TensorData};
use core::ops::{ControlFlow, Range};
use rayon::prelude::*;
use snack_burn::tensor::{DevicePattern, SparseTensor};

/// Numbers of a block of columns that is propagated at once: 256 MiB.
const BLOCK: usize = 1 << 26;
/// Fewest rows that a thread copies.
const ROWS: usize = 1 << 12;

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

    /// Number of products of [`hops_into`](Self::hops_into), which are the steps of its progress.
    pub fn products(&self, width: usize, count: usize) -> usize {
        width.div_ceil(self.columns()) * count
    }

    /// Propagates features `count` times and returns the result of every time, the features as
    /// given not among them.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of nodes.
    pub fn hops(&self, features: &FeatureMatrix, count: usize) -> Vec<FeatureMatrix> {
        let zeros = || FeatureMatrix {
            width: features.width,
            values: vec![0.0; features.values.len()],
        };
        let mut hops: Vec<_> = (0..count).map(|_| zeros()).collect();
        let mut values: Vec<_> = hops.iter_mut().map(|hop| &mut hop.values[..]).collect();
        let go_on = &mut || ControlFlow::Continue(());
        let all = self.hops_into(&features.values, features.width, &mut values, go_on);
        debug_assert!(all.is_continue());
        hops
    }

    /// Propagates features into matrices of their shape: once into the first one, once more into
    /// the second, and so on. Columns do not depend on each other, so they visit the device in
    /// blocks, which is all the memory that this takes. `done` is called after every product; if it
    /// breaks off, so does this, and the matrices are not complete.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of nodes.
    pub fn hops_into(
        &self,
        features: &[f32],
        width: usize,
        hops: &mut [&mut [f32]],
        done: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.each_block(features, width, hops.len(), |hop, columns, values| {
            scatter(hops[hop], width, columns, values);
            done()
        })
    }

    /// The last of `count` propagations alone; the input if there is none.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of nodes.
    pub fn last_hop(&self, features: &FeatureMatrix, count: usize) -> FeatureMatrix {
        let mut last = features.clone();
        let go_on = &mut || ControlFlow::Continue(());
        let all = self.last_hop_into(features, count, &mut last.values, go_on);
        debug_assert!(all.is_continue());
        last
    }

    /// Writes the last of `count` propagations into a matrix of the same shape, which it leaves as it
    /// is if there is none. `done` is as in [`hops_into`](Self::hops_into).
    ///
    /// # Panics
    ///
    /// Panics if there is another number of nodes.
    pub fn last_hop_into(
        &self,
        features: &FeatureMatrix,
        count: usize,
        last: &mut [f32],
        done: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let FeatureMatrix { width, values } = features;
        self.each_block(values, *width, count, |hop, columns, values| {
            if hop + 1 == count {
                scatter(last, *width, columns, values);
            }
            done()
        })
    }

    /// Columns of a block.
    fn columns(&self) -> usize {
        (self.block / self.matrix.dims()[0].max(1)).max(1)
    }

    /// Calls `take` with the number of a hop, a range of columns, and their values row by row, until
    /// it breaks off.
    fn each_block(
        &self,
        features: &[f32],
        width: usize,
        count: usize,
        mut take: impl FnMut(usize, Range<usize>, &[f32]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let [nodes, _] = self.matrix.dims();
        assert_eq!(
            features.len(),
            nodes * width,
            "Propagator: the graph has {nodes} nodes of {width} features each"
        );
        let step = self.columns();
        for start in (0..width).step_by(step) {
            let columns = start..(start + step).min(width);
            let block = gather(features, width, columns.clone());
            let data = TensorData::new(block, [nodes, columns.len()]);
            let mut x = Tensor::<2>::from_data(data, &self.matrix.device());
            for hop in 0..count {
                x = self.forward(x);
                let data = x.clone().into_data();
                let values = data.as_slice::<f32>().expect("features are f32");
                take(hop, columns.clone(), values)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Some columns of a matrix.
fn gather(matrix: &[f32], width: usize, columns: Range<usize>) -> Vec<f32> {
    let mut block = vec![0.0; matrix.len() / width * columns.len()];
    let rows = block.par_chunks_exact_mut(columns.len());
    rows.zip(matrix.par_chunks_exact(width))
        .with_min_len(ROWS)
        .for_each(|(values, row)| values.copy_from_slice(&row[columns.clone()]));
    block
}

fn scatter(matrix: &mut [f32], width: usize, columns: Range<usize>, block: &[f32]) {
    let rows = matrix.par_chunks_exact_mut(width);
    rows.zip(block.par_chunks_exact(columns.len()))
        .with_min_len(ROWS)
        .for_each(|(row, values)| row[columns.clone()].copy_from_slice(values));
}
