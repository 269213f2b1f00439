use super::{
    HopAttention, HopNetworks, HopProjections, LabelNetwork, OutputNetwork, Projection,
    ResidualLayer, slopes::prelu,
};
use crate::{GamlpConfig, InitStream};
use burn::{
    module::Module,
    nn::{Dropout, DropoutConfig, Linear, PRelu, PReluConfig},
    tensor::{Device, Tensor},
};

/// R_GAMLP_RLU: hops of a node transformed, combined by recursive attention, and classified
/// together with an embedding of the labels around the node.
///
/// Source: Zhang et al., "Graph Attention Multi-Layer Perceptron", 2022.
#[derive(Module, Debug)]
pub struct Gamlp {
    /// A network for every hop, if there are such.
    pub process: Option<HopNetworks>,
    /// The weights of the hops.
    pub attention: HopAttention,
    /// From the combined hops to logits.
    pub output: OutputNetwork,
    /// From the label embedding to logits.
    pub label: LabelNetwork,
    /// From the features as given to the combined hops.
    pub residual: Option<Linear>,
    /// The slope after the residual; exists in any case, as in the published code.
    pub prelu: PRelu,
    /// Dropout after the residual.
    pub dropout: Dropout,
    /// Dropout of the input of the output network.
    pub pre_dropout: Dropout,
    /// Dropout of the features of every hop.
    pub input_dropout: Dropout,
    /// Dropout of the label embedding.
    pub label_dropout: Dropout,
}

impl GamlpConfig {
    /// Initializes the network. The values depend on `seed` and the sizes only, not on the device.
    ///
    /// # Panics
    ///
    /// Panics if [`validate`](Self::validate) refuses the sizes.
    pub fn init(&self, seed: u64, device: &Device) -> Gamlp {
        if let Err(error) = self.validate() {
            panic!("GamlpConfig::init: {error}");
        }
        let stream = &mut InitStream::new(seed);
        let (features, hidden) = (self.features, self.hidden);
        let process = (self.pre_process).then(|| HopNetworks::new(self, stream, device));
        let attention = HopAttention::new(
            self.hop_width(),
            self.activation,
            self.attention_dropout,
            stream,
            device,
        );
        let output = OutputNetwork::new(self, stream, device);
        let label = LabelNetwork::new(self, stream, device);
        let dropout = |rate| DropoutConfig::new(rate).init();
        Gamlp {
            process,
            attention,
            output,
            label,
            residual: self
                .residual
                .then(|| stream.linear([features, hidden], device)),
            prelu: PReluConfig::new().init(device),
            dropout: dropout(self.dropout),
            pre_dropout: dropout(if self.pre_dropout { self.dropout } else { 0.0 }),
            input_dropout: dropout(self.input_dropout),
            label_dropout: dropout(self.label_dropout),
        }
    }
}

impl Gamlp {
    /// The logits of some nodes.
    ///
    /// # Shapes
    ///
    /// - hops: `[batch, hops, features]`, the features as given, then those of hops 1 to K
    /// - label_embedding: `[batch, classes]`
    /// - output: `[batch, classes]`
    ///
    /// # Panics
    ///
    /// Panics if there are no hops, if their number is not that of the networks for them, or if a width differs.
    pub fn forward(&self, hops: Tensor<3>, label_embedding: Tensor<2>) -> Tensor<2> {
        let [batch, count, features] = hops.dims();
        let networks = self.process.as_ref().map_or(count, HopNetworks::len);
        assert!(
            count == networks && count > 0,
            "Gamlp::forward: got {count} hops, but there are {networks} networks for them",
        );
        let hops = self.input_dropout.forward(hops);
        let given = hops.clone().narrow(1, 0, 1).reshape([batch, features]);
        let mut combined = self.attention.forward(match &self.process {
            None => hops.swap_dims(0, 1),
            Some(networks) => networks.forward(hops),
        });
        if let Some(residual) = &self.residual {
            combined = combined + residual.forward(given);
            combined = self.dropout.forward(prelu(&self.prelu, combined));
        }
        let logits = self.output.forward(self.pre_dropout.forward(combined));
        logits
            + self
                .label
                .forward(self.label_dropout.forward(label_embedding))
    }

    /// Number of trainable numbers: all parameters but the running statistics, which Burn's
    /// `num_params` counts as well. Of a sparse layer only those that exist.
    pub fn trainable_parameters(&self) -> usize {
        let hops = self.process.iter().flat_map(|networks| &networks.norm);
        let output: Vec<_> = match &self.output {
            OutputNetwork::Residual(network) => network.norms.iter().collect(),
            OutputNetwork::Head(head) => vec![&head.norm],
        };
        let norms = hops.chain(output).chain(&self.label.norms);
        let running: usize = norms.map(|norm| 2 * norm.gamma.dims()[0]).sum();
        self.num_params() - running
    }

    /// The square matrices that may be sparse, first to last; those of hops only where they are masked or sparse,
    /// since dense ones are one product.
    pub fn sparsifiable(&self) -> Vec<&Projection> {
        let mut found = match self.process.as_ref().map(|networks| &networks.second) {
            Some(HopProjections::Each(layers)) => layers.iter().collect(),
            Some(HopProjections::Dense(_)) | None => Vec::new(),
        };
        match &self.output {
            OutputNetwork::Head(head) => found.push(&head.wide),
            OutputNetwork::Residual(network) => {
                found.extend(network.first.square());
                found.extend(&network.middle);
                found.extend(network.last.as_ref().and_then(ResidualLayer::square));
            }
        }
        found
    }
}
