mod attention;
mod base;
mod batch_norm;
mod feature_head;
mod hop_networks;
mod label_network;
mod output_network;
mod projection;
mod stacked_linear;

pub use attention::HopAttention;
pub use base::Gamlp;
pub use batch_norm::BatchNorm;
pub use feature_head::FeatureHead;
pub use hop_networks::{HopNetworks, HopProjections};
pub use label_network::LabelNetwork;
pub use output_network::{OutputNetwork, ResidualLayer, ResidualNetwork};
pub use projection::Projection;
pub use stacked_linear::StackedLinear;
