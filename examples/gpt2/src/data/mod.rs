mod batch;
mod corpus;

pub use batch::*;
pub use corpus::*;
