mod predictor;
mod timing;

pub use predictor::{InputLayout, Predictor};
pub use timing::{Repeat, Timing};
