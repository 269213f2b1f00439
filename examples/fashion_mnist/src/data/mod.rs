mod batch;
mod dataset;
mod idx;
mod images;
mod loader;

pub use batch::*;
pub use dataset::*;
pub use idx::*;
pub use images::*;
pub use loader::*;
