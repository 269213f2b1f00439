mod attention;
mod base;
mod block;
mod mlp;
mod mlp_linear;
mod norm;
mod precision;

pub use attention::*;
pub use base::*;
pub use block::*;
pub use mlp::*;
pub use mlp_linear::MlpLinear;
pub(crate) use mlp_linear::routines;
pub use norm::LayerNorm;
pub use precision::Precision;
