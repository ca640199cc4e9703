//! Git sync against real git, with a whole server.
#![allow(clippy::unwrap_used)]
mod files;
mod http;
mod pull;
mod rights;
mod ssh;
mod sshd;
mod standing;
mod support;
mod trouble;
mod write_back;
