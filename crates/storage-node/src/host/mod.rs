//! What the machine says and does: mounts, devices, file systems, programs.

pub mod mounts;
