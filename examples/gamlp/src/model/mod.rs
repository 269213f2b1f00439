mod attention;
mod base;
mod batch_norm;
mod feature_head;
mod feed_forward;
mod output_network;
mod projection;

pub use attention::HopAttention;
pub use base::Gamlp;
pub use batch_norm::BatchNorm;
pub use feature_head::FeatureHead;
pub use feed_forward::FeedForward;
pub use output_network::{OutputNetwork, ResidualLayer, ResidualNetwork};
pub use projection::Projection;
