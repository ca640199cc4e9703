//! The layers of an accessor, from the outside in: lineage, admission, hydration, versions and sharing where a kind has
//! them.
pub mod admission;
pub mod fence;
pub mod hydrate;
pub mod lineage;
pub mod project_end;
pub mod sharing;
pub mod spectator;
pub mod versions;
