mod energy;
mod predictor;
mod timing;

pub use energy::EnergyWindow;
pub use predictor::{InputLayout, Predictor};
pub use timing::{Repeat, Timing};
