//! Real files, real handshakes, and certificates made by another program.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as the tests themselves may")]

mod files;
mod handshake;
mod live;
mod openssl;
mod support;
