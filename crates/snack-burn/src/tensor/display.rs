//! What a sparse tensor prints.

use core::fmt;

use super::SparseTensor;

/// Entries printed before the rest is elided.
const SHOWN: usize = 8;

impl fmt::Display for SparseTensor {
    /// Shape, density, type and device on one line, then the first entries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, cols] = self.dims();
        writeln!(
            f,
            "SparseTensor {{ shape: [{rows}, {cols}], nnz: {}, density: {:.2} %, dtype: {}, device: {:?} }}",
            self.nnz(),
            100.0 * self.density(),
            self.dtype().name(),
            self.device_pattern().device(),
        )?;
        let shown = self.nnz().min(SHOWN);
        if shown > 0 {
            let values = self
                .values()
                .clone()
                .detach()
                .narrow(0, 0, shown)
                .into_data();
            for ((row, col), value) in self.pattern().iter().zip(values.iter::<f64>()) {
                writeln!(f, "  ({row}, {col}) {value}")?;
            }
        }
        match self.nnz() - shown {
            0 => Ok(()),
            more => writeln!(f, "  ... {more} more"),
        }
    }
}
