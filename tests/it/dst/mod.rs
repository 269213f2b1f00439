//! The engine of dynamic sparse training, from outside.

mod bad_input;
mod capture;
mod followers;
mod groups;
mod presets;
mod probe;
mod resume;
mod rigl;
