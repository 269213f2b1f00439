//! The products and their gradients in f64 on the host, from lists of coordinates. Nothing here
//! touches the library, so that no mistake can be shared.

/// A matrix `[m, k]` as parallel lists, one entry per non-zero.
#[derive(Debug, Clone)]
pub struct Coo {
    pub shape: [usize; 2],
    pub rows: Vec<usize>,
    pub cols: Vec<usize>,
    pub values: Vec<f64>,
}

impl Coo {
    fn entries(&self) -> impl Iterator<Item = (usize, usize, f64)> + '_ {
        self.rows
            .iter()
            .zip(&self.cols)
            .zip(&self.values)
            .map(|((&row, &col), &value)| (row, col, value))
    }

    /// `Y = X W^T` for `x` `[batch, k]`: `[batch, m]`.
    pub fn spmm(&self, x: &[f64], batch: usize) -> Vec<f64> {
        let [m, k] = self.shape;
        assert_eq!(x.len(), batch * k);
        let mut y = vec![0.0; batch * m];
        for sample in 0..batch {
            for (row, col, value) in self.entries() {
                y[sample * m + row] += value * x[sample * k + col];
            }
        }
        y
    }

    /// `X = Y W` for `y` `[batch, m]`: `[batch, k]`.
    pub fn spmm_transposed(&self, y: &[f64], batch: usize) -> Vec<f64> {
        let [m, k] = self.shape;
        assert_eq!(y.len(), batch * m);
        let mut x = vec![0.0; batch * k];
        for sample in 0..batch {
            for (row, col, value) in self.entries() {
                x[sample * k + col] += value * y[sample * m + row];
            }
        }
        x
    }

    /// `d[s] = sum_b Y[b, row(s)] X[b, col(s)]`: `[nnz]`.
    pub fn sddmm(&self, y: &[f64], x: &[f64], batch: usize) -> Vec<f64> {
        let [m, k] = self.shape;
        assert_eq!((y.len(), x.len()), (batch * m, batch * k));
        self.entries()
            .map(|(row, col, _)| {
                (0..batch)
                    .map(|sample| y[sample * m + row] * x[sample * k + col])
                    .sum()
            })
            .collect()
    }

    /// The row-major dense matrix.
    pub fn to_dense(&self) -> Vec<f64> {
        let [m, k] = self.shape;
        let mut dense = vec![0.0; m * k];
        for (row, col, value) in self.entries() {
            dense[row * k + col] += value;
        }
        dense
    }
}

/// The sum over the batch of an output gradient `[batch, m]`: `[m]`.
pub fn bias_gradient(grad: &[f64], batch: usize, m: usize) -> Vec<f64> {
    (0..m)
        .map(|row| (0..batch).map(|sample| grad[sample * m + row]).sum())
        .collect()
}
