use crate::{Gamlp, NodeInputs, NodeTask};
use burn::tensor::{Device, Tensor, TensorData};
use snack_burn::capture::{Captured, store};
use std::{cell::RefCell, rc::Rc};

/// How the inputs of a node lie in one row: its features, those of every hop, its label embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputLayout {
    /// Matrices of features: one more than there are propagations.
    pub hops: usize,
    /// Number of features.
    pub features: usize,
    /// Number of classes.
    pub classes: usize,
}

impl InputLayout {
    /// Numbers of a row.
    pub fn width(&self) -> usize {
        self.hops * self.features + self.classes
    }

    /// The logits of packed rows.
    ///
    /// # Shapes
    ///
    /// - rows: `[batch, width]`
    /// - output: `[batch, classes]`
    ///
    /// # Panics
    ///
    /// Panics if rows or model have another layout.
    pub fn forward(&self, model: &Gamlp, rows: Tensor<2>) -> Tensor<2> {
        let [batch, _] = rows.dims();
        let width = self.hops * self.features;
        let hops = rows.clone().narrow(1, 0, width);
        let hops = hops.reshape([batch, self.hops, self.features]);
        model.forward(hops, rows.narrow(1, width, self.classes))
    }
}

impl NodeInputs {
    /// How the rows of [`packed`](Self::packed) are laid out.
    pub fn layout(&self) -> InputLayout {
        InputLayout {
            hops: self.hops().len(),
            features: self.hops()[0].width(),
            classes: self.label_embedding().width(),
        }
    }

    /// The inputs of some nodes, a row for each.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn packed(&self, nodes: &[u32]) -> Vec<f32> {
        let mut rows = Vec::with_capacity(nodes.len() * self.layout().width());
        for &node in nodes {
            let hops = self.hops().iter();
            for matrix in hops.chain([self.label_embedding()]) {
                rows.extend_from_slice(matrix.row(node as usize));
            }
        }
        rows
    }
}

impl NodeTask {
    /// The inputs of some nodes, a row for each.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn packed(&self, nodes: &[u32]) -> Vec<f32> {
        self.inputs().packed(nodes)
    }
}

/// Runs a closure over the same input tensor again and again, operation by operation or as one
/// recorded graph.
///
/// Replays see what is written to the input in between, because both have the same tensor, not clones
/// of it.
pub struct Predictor {
    input: Rc<RefCell<Tensor<2>>>,
    run: Run,
}

enum Run {
    Eager(Box<dyn Fn(Tensor<2>) -> Tensor<2>>),
    Recorded(Box<Captured<Tensor<2>>>),
}

impl Predictor {
    /// A model in evaluation mode on batches of `batch` nodes.
    ///
    /// # Panics
    ///
    /// Panics if the model has another layout.
    pub fn of_model(
        model: &Gamlp,
        layout: InputLayout,
        batch: usize,
        record: bool,
        device: &Device,
    ) -> Self {
        let model = model.clone();
        let input = Tensor::zeros([batch, layout.width()], device);
        Self::new(input, record, move |rows| layout.forward(&model, rows))
    }

    /// Any function, with its first input.
    ///
    /// With `record`, it is [captured](Captured), which runs it a few times; where the device cannot
    /// record, this only costs that time. While it records, other threads must leave the device alone.
    pub fn new(
        input: Tensor<2>,
        record: bool,
        function: impl Fn(Tensor<2>) -> Tensor<2> + 'static,
    ) -> Self {
        let device = input.device();
        let input = Rc::new(RefCell::new(input));
        let run = match record {
            false => Run::Eager(Box::new(function)),
            true => {
                let input = input.clone();
                let captured = Captured::new(&device, move || {
                    let rows = input.borrow().clone();
                    function(rows)
                });
                Run::Recorded(Box::new(captured))
            }
        };
        Self { input, run }
    }

    /// Replaces the input.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of values.
    pub fn write(&mut self, values: &[f32]) {
        let mut input = self.input.borrow_mut();
        let data = TensorData::new(values.to_vec(), input.dims());
        let value = Tensor::from_data(data, &input.device());
        match &self.run {
            Run::Eager(_) => *input = value,
            Run::Recorded(_) => store(&mut input, value),
        }
    }

    /// Computes the output of the input, whose buffer the next call may overwrite.
    pub fn forward(&mut self) -> Tensor<2> {
        match &mut self.run {
            Run::Eager(function) => {
                let rows = self.input.borrow().clone();
                function(rows)
            }
            Run::Recorded(captured) => captured.replay().clone(),
        }
    }

    /// The output of `values`, on the host.
    ///
    /// # Panics
    ///
    /// Panics if there is another number of values.
    pub fn predict(&mut self, values: &[f32]) -> Vec<f32> {
        self.write(values);
        self.forward().into_data().iter::<f32>().collect()
    }

    /// Whether the device replays a hardware graph.
    pub fn is_hardware(&self) -> bool {
        matches!(&self.run, Run::Recorded(captured) if captured.is_hardware())
    }
}
