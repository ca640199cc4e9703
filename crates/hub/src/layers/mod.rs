//! The layers of an accessor, from the outside in: lineage, admission, hydration.
pub mod admission;
pub mod fence;
pub mod hydrate;
pub mod lineage;
pub mod project_end;
