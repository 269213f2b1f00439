use crate::ReliableSet;
use burn::tensor::{DType, Device, Int, Tensor, TensorData, activation::log_softmax};

/// Added to probabilities under a logarithm.
const TINY: f32 = 1e-8;

/// What the logits of a batch are compared with: classes of its first rows, probabilities of the others.
#[derive(Debug, Clone)]
pub struct BatchTargets {
    /// Classes, `[rows to learn from, 1]`.
    classes: Tensor<2, Int>,
    reliable: Option<ReliableTargets>,
}

#[derive(Debug, Clone)]
struct ReliableTargets {
    /// `max(q) q` of every row, `[reliable rows, classes]`.
    weighted: Tensor<2>,
    /// Mean over the rows of `max(q) sum(q log(q + 1e-8))`.
    constant: f32,
    /// Weight of this part.
    gamma: f64,
}

impl BatchTargets {
    /// The classes of rows to learn from.
    pub fn new(classes: Vec<i32>, device: &Device) -> Self {
        let data = TensorData::new(classes.clone(), [classes.len(), 1]);
        Self {
            classes: Tensor::from_data(data, (device, DType::I32)),
            reliable: None,
        }
    }

    /// And the probabilities of reliable rows, given by their positions in the set, with the weight
    /// of their loss. Without positions there is no such part.
    ///
    /// # Panics
    ///
    /// Panics if the set has no such position.
    pub fn with_reliable(
        mut self,
        set: &ReliableSet,
        positions: &[u32],
        gamma: f64,
        device: &Device,
    ) -> Self {
        if positions.is_empty() {
            return self;
        }
        let width = set.probabilities.width;
        let mut weighted = Vec::with_capacity(positions.len() * width);
        let mut sum = 0.0;
        for &position in positions {
            let row = set.probabilities.row(position as usize);
            let largest = row.iter().copied().fold(0.0, f32::max);
            let entropy: f32 = row.iter().map(|q| q * (q + TINY).ln()).sum();
            sum += f64::from(largest * entropy);
            weighted.extend(row.iter().map(|q| largest * q));
        }
        let data = TensorData::new(weighted, [positions.len(), width]);
        self.reliable = Some(ReliableTargets {
            weighted: Tensor::from_data(data, device),
            constant: (sum / positions.len() as f64) as f32,
            gamma,
        });
        self
    }

    /// The loss of reliable label utilization: the cross-entropy of the rows to learn from, and for
    /// reliable ones the divergence from their probabilities, weighted by the largest of these; both
    /// in proportion to their numbers of rows.
    ///
    /// # Shapes
    ///
    /// - logits: `[rows, classes]`, the rows to learn from first
    /// - output: `[1]`
    ///
    /// # Panics
    ///
    /// Panics if the numbers of rows or classes differ.
    pub fn loss(&self, logits: Tensor<2>) -> Tensor<1> {
        let [learned, _] = self.classes.dims();
        let [rows, _] = logits.dims();
        let logs = log_softmax(logits, 1);
        let own = logs.clone().narrow(0, 0, learned);
        let cross_entropy = -own.gather(1, self.classes.clone()).mean();
        let Some(targets) = &self.reliable else {
            assert_eq!(rows, learned, "BatchTargets::loss: every row has a class");
            return cross_entropy;
        };
        let others = targets.weighted.dims()[0];
        let logs = logs.narrow(0, learned, rows - learned);
        let divergence = (logs * targets.weighted.clone()).sum() / -(others as f64);
        let divergence = divergence + targets.constant;
        (cross_entropy * learned as f64 + divergence * (targets.gamma * others as f64))
            / (learned + others) as f64
    }
}
