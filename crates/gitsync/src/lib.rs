//! Git sync: a project and a folder of a git repository are kept the same.
//!
//! ```text
//!   repository ─ fetch ─> Source ──┐                       ┌─> apply, delete (by the role of the sync)
//!                                  ├─> plan (pure) ─ Steps ─┤
//!   objects of the project ────────┘                       └─> files ─> commit ─> push
//! ```
//! What was the same on both sides is remembered in the lineage of each object; nothing is kept elsewhere but
//! copies of repositories, which can be thrown away.
//!
//! Owns: the GitSync kind, what is done to git by the git program, which objects and files follow from which.
//! Not in it: how lineage is hidden and kept (the hub's), who may do what (the server answers [`Authority`]).
mod content;
mod controller;
mod edit;
mod files;
pub mod git;
mod lineage;
mod plan;
mod rights;
mod round;
mod source;
mod standing;
mod status;
mod system;
mod trigger;
mod wiring;

pub use lineage::{Lineage, Origin};
pub use rights::{Authority, Rights};
pub use wiring::{GitOptions, rules, spawn_leader};
