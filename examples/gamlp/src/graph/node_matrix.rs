use super::MappedMatrix;
use crate::FeatureMatrix;

/// Numbers of every node, in memory or in a file.
#[derive(Debug, Clone)]
pub enum NodeMatrix {
    /// In memory.
    Memory(FeatureMatrix),
    /// In a file of which the system keeps in memory what fits.
    File(MappedMatrix),
}

impl NodeMatrix {
    /// Number of columns.
    pub fn width(&self) -> usize {
        match self {
            Self::Memory(matrix) => matrix.width,
            Self::File(matrix) => matrix.width(),
        }
    }

    /// `nodes x width` numbers, those of a node next to each other.
    pub fn values(&self) -> &[f32] {
        match self {
            Self::Memory(matrix) => &matrix.values,
            Self::File(matrix) => matrix.values(),
        }
    }

    /// The numbers of a node.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn row(&self, node: usize) -> &[f32] {
        let width = self.width();
        &self.values()[node * width..(node + 1) * width]
    }

    /// If it lies in a file.
    pub fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

impl From<FeatureMatrix> for NodeMatrix {
    fn from(matrix: FeatureMatrix) -> Self {
        Self::Memory(matrix)
    }
}

impl From<MappedMatrix> for NodeMatrix {
    fn from(matrix: MappedMatrix) -> Self {
        Self::File(matrix)
    }
}
