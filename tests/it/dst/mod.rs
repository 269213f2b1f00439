//! The engine of dynamic sparse training, from outside.

mod bad_input;
mod capture;
mod followers;
mod groups;
mod guards;
#[cfg(feature = "train")]
pub mod learner;
pub mod presets;
pub mod probe;
mod resume;
mod rigl;
