use burn::{
    module::{Module, ModuleVisitor, Param, RunningState},
    nn::Linear,
    tensor::{Device, Int, Tensor, TensorData},
};
use gamlp::{
    Args, BatchNorm, Gamlp, GamlpConfig, GamlpError, GraphId, GraphSource, HopNetworks,
    HopProjections, Interrupt, LabelNetwork, LogLine, NodeTask, Outcome, OutputNetwork, Projection,
    ResidualLayer, ResidualNetwork, StackedLinear, TrainOptions,
};
use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The CPU device where there is one, so that numbers can be compared to the last digits.
pub fn device() -> Device {
    #[cfg(feature = "flex")]
    return Device::flex();
    #[cfg(not(feature = "flex"))]
    Device::default()
}

/// To be held while training with dropout: all threads share the random stream of a device, from which
/// a run draws the same numbers only if nobody else draws from it.
pub fn random_stream() -> MutexGuard<'static, ()> {
    static STREAM: Mutex<()> = Mutex::new(());
    STREAM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run of a second on the shipped graph: 12 epochs of 4 steps without dropout, with topology
/// updates at epochs 2, 4 and 6.
pub fn tiny(out: &Path) -> Args {
    Args {
        sparsity: Some(0.8),
        hidden: Some(16),
        head: Some(32),
        hops: Some(2),
        label_hops: Some(3),
        epochs: vec![12],
        dropout: Some(0.0),
        attention_dropout: Some(0.0),
        label_dropout: Some(0.0),
        learning_rate: Some(0.01),
        update_every: Some(2),
        update_stop: Some(7),
        checkpoint_every: Some(5),
        out: Some(out.join("run")),
        quiet: true,
        #[cfg(feature = "flex")]
        device: Some(gamlp::DeviceChoice::Flex),
        ..Args::default()
    }
}

/// Runs to the end.
pub fn finish(args: &Args) -> Result<Outcome, GamlpError> {
    gamlp::run(args, &Interrupt::never())
}

/// The lines of a run's log.
pub fn log_lines(out: &Path) -> Vec<LogLine> {
    LogLine::read_all(&out.join("run/log.jsonl")).unwrap()
}

/// The graph of the options, propagated.
pub fn task(options: &TrainOptions) -> NodeTask {
    task_of(&options.graph, [options.model.hops, options.label_hops])
}

pub fn task_of(source: &GraphSource, hops: [usize; 2]) -> NodeTask {
    let (data, _) = source.load(None).unwrap();
    NodeTask::new(GraphId::new(source, &data), data, hops, &device()).unwrap()
}

/// Every parameter of a module with its path, floats as bits.
pub fn bits<M: Module>(module: &M) -> Vec<(String, Vec<i64>)> {
    let mut collector = Collector::default();
    module.visit(&mut collector);
    collector.found
}

#[derive(Default)]
struct Collector {
    path: Vec<String>,
    found: Vec<(String, Vec<i64>)>,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = param.val().into_data();
        let bits = data.iter::<f32>().map(|value| value.to_bits().into());
        self.found.push((self.path.join("."), bits.collect()));
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let data = param.val().into_data();
        self.found
            .push((self.path.join("."), data.iter::<i64>().collect()));
    }
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

    fn label_network(&self, network: &mut LabelNetwork, device: &Device) {
        for (i, layer) in network.layers.iter_mut().enumerate() {
            self.linear(layer, &format!("label_fc.layers.{i}"), device);
        }
        for (i, norm) in network.norms.iter_mut().enumerate() {
            self.norm(norm, &format!("label_fc.bns.{i}"), device);
        }
        network.prelu.alpha = Param::from_tensor(self.tensor("label_fc.prelu.weight", device));
    }

    fn hop_networks(&self, networks: &mut HopNetworks, device: &Device) {
        let hops = networks.len();
        let stack = |layer: usize| StackedLinear {
            weight: Param::from_tensor(
                self.each::<2, 3>(hops, &format!("layers.{layer}.weight"), device)
                    .swap_dims(1, 2),
            ),
            bias: Param::from_tensor(self.each::<1, 2>(
                hops,
                &format!("layers.{layer}.bias"),
                device,
            )),
        };
        networks.first = stack(0);
        networks.second = HopProjections::Dense(stack(1));
        if let Some(norm) = &mut networks.norm {
            let part = |part: &str| {
                let parts = self.each::<1, 2>(hops, &format!("bns.0.{part}"), device);
                parts.flatten::<1>(0, 1)
            };
            norm.gamma = Param::from_tensor(part("weight"));
            norm.beta = Param::from_tensor(part("bias"));
            norm.running_mean = RunningState::new(part("running_mean"));
            norm.running_var = RunningState::new(part("running_var"));
        }
        let slopes = self.each::<1, 2>(hops, "prelu.weight", device);
        networks.prelu.alpha = Param::from_tensor(slopes.flatten(0, 1));
    }

    /// An array of every hop, one after another.
    fn each<const D: usize, const E: usize>(
        &self,
        hops: usize,
        name: &str,
        device: &Device,
    ) -> Tensor<E> {
        let arrays = (0..hops).map(|k| self.tensor::<D>(&format!("process.{k}.{name}"), device));
        Tensor::stack(arrays.collect(), 0)
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
        if let Some(networks) = &mut model.process {
            self.hop_networks(networks, device);
        }
        self.linear(&mut model.attention.score, "lr_att", device);
        match &mut model.output {
            OutputNetwork::Residual(network) => self.residual_network(network, device),
            OutputNetwork::Head(_) => panic!("the published network has no feature head"),
        }
        self.label_network(&mut model.label, device);
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
