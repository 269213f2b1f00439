mod attention;
mod base;
mod block;
mod gelu;
mod mlp;
mod mlp_linear;
mod precision;

pub use attention::*;
pub use base::*;
pub use block::*;
pub use gelu::gelu_tanh;
pub use mlp::*;
pub use mlp_linear::MlpLinear;
pub(crate) use mlp_linear::routines;
pub use precision::Precision;
