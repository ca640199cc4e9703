//! Measurements: what a benchmark needs, whatever it measures.
//!
//! Owns: processes under measurement, load from many clients, percentiles, tables.
//! Not in it: assertions. Machines are noisy; a benchmark prints, and people compare.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
pub mod etcd;
pub mod grpc;
pub mod load;
pub mod process;
pub mod resources;
pub mod server;
pub mod table;
pub mod wire;
