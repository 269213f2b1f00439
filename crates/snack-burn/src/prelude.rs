//! One import for the usual types.

pub use crate::capture::Captured;
pub use crate::checkpoint::{Checkpoint, CheckpointError};
pub use crate::dst::{Dst, DstConfig, DstError, DstState, LayerUpdate, Preset, TopologyUpdate};
pub use crate::error::SparseError;
pub use crate::nn::{
    MaskedLinear, PatternSampler, Prune, SparseInitializer, SparseLinear, SparseLinearConfig,
    SparseModule,
};
pub use crate::ops::{Layout, Routines, SddmmRoutine, SpmmRoutine};
pub use crate::pattern::{Duplicates, Pattern};
pub use crate::tensor::{DevicePattern, SparseTensor};
