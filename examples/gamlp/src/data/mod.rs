mod cache;
mod error;
mod graph_data;
mod lines;
mod note;
mod ogb;
mod parse;
mod source;
mod split;
mod temporary;
mod write;

pub use cache::{CacheError, GraphCache, SourceId};
pub use error::{DataError, LineFault};
pub use graph_data::{EdgeRule, FeatureMatrix, FeatureSource, GraphData, Labels, NodeSplit};
pub use note::GraphNote;
pub use ogb::{GraphFolder, ReadOptions};
pub use source::{GraphId, GraphSource, SyntheticSize};
pub(crate) use temporary::{remove_leftovers, temporary_file};
