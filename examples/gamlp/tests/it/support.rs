use burn::{
    module::{Param, RunningState},
    nn::Linear,
    tensor::{Device, Tensor, TensorData},
};
use gamlp::{
    BatchNorm, FeedForward, Gamlp, GamlpConfig, OutputNetwork, Projection, ResidualLayer,
    ResidualNetwork,
};
use std::{collections::BTreeMap, env, path::PathBuf};

/// The CPU device where there is one, so that numbers can be compared to the last digits.
pub fn device() -> Device {
    #[cfg(feature = "flex")]
    return Device::flex();
    #[cfg(not(feature = "flex"))]
    Device::default()
}

/// A folder or file of the sample data; says so and returns nothing where it is absent.
pub fn sample(name: &str) -> Option<PathBuf> {
    let data = env::var_os("SNACK_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let path = data.join(name);
    if path.exists() {
        return Some(path);
    }
    println!(
        "skipped: there is no {} (set SNACK_DATA to the folder that holds {name})",
        path.display()
    );
    None
}

/// A shape and numbers.
#[derive(Debug, Clone)]
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

impl Array {
    pub fn data(&self) -> TensorData {
        TensorData::new(self.values.clone(), self.shape.clone())
    }
}

/// Weights under the names of the published code, in which linear weights are `[output, input]`
/// but those of `lr_output` are `[input, output]`.
#[derive(Debug, Clone, Default)]
pub struct Weights(pub BTreeMap<String, Array>);

impl Weights {
    pub fn get(&self, name: &str) -> &Array {
        self.0
            .get(name)
            .unwrap_or_else(|| panic!("there is no weight {name}"))
    }

    fn tensor<const D: usize>(&self, name: &str, device: &Device) -> Tensor<D> {
        Tensor::from_data(self.get(name).data(), device)
    }

    fn linear(&self, layer: &mut Linear, name: &str, device: &Device) {
        let weight = self.tensor::<2>(&format!("{name}.weight"), device);
        layer.weight = Param::from_tensor(weight.transpose());
        layer.bias = Some(Param::from_tensor(
            self.tensor(&format!("{name}.bias"), device),
        ));
    }

    fn norm(&self, norm: &mut BatchNorm, name: &str, device: &Device) {
        let part = |part: &str| self.tensor::<1>(&format!("{name}.{part}"), device);
        norm.gamma = Param::from_tensor(part("weight"));
        norm.beta = Param::from_tensor(part("bias"));
        norm.running_mean = RunningState::new(part("running_mean"));
        norm.running_var = RunningState::new(part("running_var"));
    }

    fn feed_forward(&self, network: &mut FeedForward, name: &str, device: &Device) {
        let middle = network.middle.iter_mut().map(dense);
        let layers = core::iter::once(&mut network.first)
            .chain(middle)
            .chain(&mut network.last);
        for (i, layer) in layers.enumerate() {
            self.linear(layer, &format!("{name}.layers.{i}"), device);
        }
        for (i, norm) in network.norms.iter_mut().enumerate() {
            self.norm(norm, &format!("{name}.bns.{i}"), device);
        }
        let slope = self.tensor(&format!("{name}.prelu.weight"), device);
        network.prelu.alpha = Param::from_tensor(slope);
    }

    fn residual_network(&self, network: &mut ResidualNetwork, device: &Device) {
        let square = |layer| match layer {
            &mut ResidualLayer::Plain(ref mut layer) => layer,
            ResidualLayer::Square(projection) => dense(projection),
        };
        let layers = core::iter::once(square(&mut network.first))
            .chain(network.middle.iter_mut().map(dense))
            .chain(network.last.as_mut().map(square));
        for ((i, layer), norm) in layers.enumerate().zip(&mut network.norms) {
            let name = format!("lr_output.layers.{i}");
            layer.weight = Param::from_tensor(self.tensor(&format!("{name}.weight"), device));
            self.norm(norm, &format!("{name}.bias"), device);
        }
        let slope = self.tensor("lr_output.prelu.weight", device);
        network.prelu.alpha = Param::from_tensor(slope);
    }

    /// The network of `config` with these weights.
    pub fn load(&self, config: &GamlpConfig, device: &Device) -> Gamlp {
        let mut model = config.init(0, device);
        for (k, network) in model.process.iter_mut().enumerate() {
            self.feed_forward(network, &format!("process.{k}"), device);
        }
        self.linear(&mut model.attention.score, "lr_att", device);
        match &mut model.output {
            OutputNetwork::Residual(network) => self.residual_network(network, device),
            OutputNetwork::Head(_) => panic!("the published network has no feature head"),
        }
        self.feed_forward(&mut model.label, "label_fc", device);
        if let Some(layer) = &mut model.residual {
            self.linear(layer, "res_fc", device);
        }
        model.prelu.alpha = Param::from_tensor(self.tensor("prelu.weight", device));
        model
    }
}

fn dense(projection: &mut Projection) -> &mut Linear {
    match projection {
        Projection::Dense(layer) => layer,
        _ => panic!("the published network is dense"),
    }
}

/// The largest difference between a tensor and numbers.
pub fn distance<const D: usize>(found: &Tensor<D>, expected: &[f64]) -> f64 {
    let found: Vec<f64> = found.to_data().iter::<f64>().collect();
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// The numbers in double precision.
pub fn doubles(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| value.into()).collect()
}
