//! Parity with three small networks that the published code ran.

use crate::support::{Array, Weights, device, distance, doubles, sample};
use burn::{
    nn::loss::CrossEntropyLossConfig,
    tensor::{Device, Int, Tensor, TensorData},
};
use gamlp::{Gamlp, GamlpConfig, OutputNetwork, ScoreActivation};
use safetensors::{Dtype, SafeTensors};
use std::{collections::HashMap, fs, path::Path};

const CASES: [&str; 3] = ["l2_leaky", "l3_sigmoid_nores", "l4_leaky"];

/// What the published code was given and computed.
struct Golden {
    config: GamlpConfig,
    arrays: Weights,
    targets: Vec<i64>,
}

impl Golden {
    fn find(case: &str) -> Option<Self> {
        let path = sample(&format!("gamlp/r_gamlp_rlu_{case}.safetensors"))?;
        Some(Self::read(&path))
    }

    fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let config = config(header.metadata().as_ref().unwrap());
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let mut arrays = Weights::default();
        let mut targets = Vec::new();
        for (name, view) in file.iter() {
            match view.dtype() {
                Dtype::F32 => {
                    let (words, _) = view.data().as_chunks::<4>();
                    let values = words.iter().map(|word| f32::from_le_bytes(*word)).collect();
                    let shape = view.shape().to_vec();
                    arrays.0.insert(name.into(), Array { shape, values });
                }
                Dtype::I64 if name == "in.y" => {
                    let (words, _) = view.data().as_chunks::<8>();
                    targets = words.iter().map(|word| i64::from_le_bytes(*word)).collect();
                }
                // How often the published batch norms were used: nothing depends on it.
                _ => assert!(name.ends_with("num_batches_tracked"), "{name}"),
            }
        }
        Self {
            config,
            arrays,
            targets,
        }
    }

    fn model(&self, device: &Device) -> Gamlp {
        let params = self.arrays.0.iter().filter_map(|(name, array)| {
            let name = name.strip_prefix("param.")?;
            Some((name.to_string(), array.clone()))
        });
        Weights(params.collect()).load(&self.config, device)
    }

    fn logits(&self, model: &Gamlp, device: &Device) -> Tensor<2> {
        let tensor = |name: &str| Tensor::from_data(self.arrays.get(name).data(), device);
        let hops: Vec<_> = (0..=self.config.hops)
            .map(|k| tensor(&format!("in.feat.{k}")))
            .collect();
        model.forward(Tensor::stack(hops, 1), tensor("in.label_emb"))
    }

    fn expected(&self, name: &str) -> Vec<f64> {
        doubles(&self.arrays.get(name).values)
    }
}

fn config(metadata: &HashMap<String, String>) -> GamlpConfig {
    let number = |name: &str| metadata[name].parse::<usize>().unwrap();
    let flag = |name: &str| metadata[name] == "True";
    GamlpConfig::new(number("nfeat"), number("nclass"))
        .with_hidden(number("hidden"))
        .with_hops(number("num_hops_plus_1") - 1)
        .with_output_layers(number("n_layers_2"))
        .with_label_layers(number("n_layers_3"))
        .with_alpha(metadata["alpha"].parse().unwrap())
        .with_activation(match metadata["act"].as_str() {
            "leaky_relu" => ScoreActivation::LeakyRelu,
            "sigmoid" => ScoreActivation::Sigmoid,
            other => panic!("the samples have no activation {other}"),
        })
        .with_pre_process(flag("pre_process"))
        .with_residual(flag("residual"))
        .with_batch_norm(flag("bns"))
        .with_dropout(0.0)
        .with_attention_dropout(0.0)
        .with_label_dropout(0.0)
}

#[test]
fn evaluation_gives_the_published_logits() {
    for case in CASES {
        let Some(golden) = Golden::find(case) else {
            return;
        };
        let device = device();
        let logits = golden.logits(&golden.model(&device), &device);
        let distance = distance(&logits, &golden.expected("out.eval_logits"));
        assert!(distance < 1e-5, "{case}: {distance:e}");
    }
}

#[test]
fn training_gives_the_published_logits_loss_gradients_and_statistics() {
    for case in CASES {
        let Some(golden) = Golden::find(case) else {
            return;
        };
        let device = device().autodiff();
        let model = golden.model(&device);
        let logits = golden.logits(&model, &device);
        let far = distance(&logits, &golden.expected("out.train_logits"));
        assert!(far < 1e-5, "{case}: {far:e}");

        let targets = TensorData::new(golden.targets.clone(), [golden.targets.len()]);
        let targets = Tensor::<1, Int>::from_data(targets, &device);
        let loss = CrossEntropyLossConfig::new()
            .init(&device)
            .forward(logits, targets);
        let far = distance(&loss, &golden.expected("out.train_loss"));
        assert!(far < 1e-5, "{case}: the loss, {far:e}");

        let grads = loss.backward();
        let near = |found: Tensor<2>, name: &str| {
            let far = distance(&found, &golden.expected(name));
            assert!(far < 1e-5, "{case}: {name}, {far:e}");
        };
        let row = |x: Tensor<1>| x.unsqueeze::<2>();
        let score = &model.attention.score;
        near(
            score.weight.grad(&grads).unwrap().transpose(),
            "grad.lr_att.weight",
        );
        let networks = model.process.as_ref().expect("every case has them");
        let first = networks.first.weight.grad(&grads).unwrap();
        let of_hop = first.narrow(0, 1, 1).squeeze_dim::<2>(0);
        near(of_hop.transpose(), "grad.process.1.layers.0.weight");
        let slope = model.label.prelu.alpha.grad(&grads).unwrap();
        near(row(slope), "grad.label_fc.prelu.weight");
        let OutputNetwork::Residual(output) = &model.output else {
            panic!("there is no feature head");
        };
        let gamma = output.norms[0].gamma.grad(&grads).unwrap();
        near(row(gamma), "grad.lr_output.layers.0.bias.weight");

        let norm = networks.norm.as_ref().expect("every case has them");
        let of_hop = |x: Tensor<1>| row(x.narrow(0, 0, golden.config.hidden));
        near(
            of_hop(norm.running_mean.value_sync()),
            "after.process.0.bns.0.running_mean",
        );
        near(
            of_hop(norm.running_var.value_sync()),
            "after.process.0.bns.0.running_var",
        );
        let norm = output.norms.last().unwrap();
        let last = golden.config.output_layers - 1;
        let name = format!("after.lr_output.layers.{last}.bias.running_var");
        near(row(norm.running_var.value_sync()), &name);
    }
}
