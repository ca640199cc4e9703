//! The library against a server whose every message the test decides. How it works with the real
//! server is tested in the crate `machines`.
mod aws;
mod fake;
mod library;
mod process;
