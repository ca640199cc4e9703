//! The layers of an accessor, from the outside in: admission, hydration.
pub mod admission;
pub mod fence;
pub mod hydrate;
pub mod project_end;
