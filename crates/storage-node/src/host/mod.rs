//! What the machine says and does: mounts, devices, file systems, programs.

pub mod block;
pub(crate) mod ext;
pub mod filesystem;
pub mod mount;
pub mod mounts;
pub(crate) mod program;
pub mod stage;
