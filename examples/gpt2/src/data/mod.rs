mod batch;
mod corpus;
mod permutation;
mod windows;

pub use batch::*;
pub use corpus::*;
pub use permutation::*;
pub use windows::*;
