//! Whole servers, in the test's own process.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod replicas;
