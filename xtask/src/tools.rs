//! Programs of others that tests and suites run: which they are, and how those that are missing get here.
//!
//! Owns: the list of requirements and their installation.
//! Not in it: what follows when one cannot be had; whoever asked for it decides that.

mod install;
mod requirement;

use std::path::PathBuf;

use anyhow::Result;

pub use self::install::{Unmet, install};
pub use self::requirement::{Absent, REQUIREMENTS, Requirement};
use crate::workspace;

/// Where installed packages are that are kept apart from the machine's own. Tests and suites find it in
/// `ORRERY_TOOLS`.
pub fn folder() -> Result<PathBuf> {
    Ok(workspace::root()?.join("target/tools"))
}

/// The requirement of this name.
pub fn find(name: &str) -> Option<&'static Requirement> {
    REQUIREMENTS.iter().find(|one| one.name == name)
}
