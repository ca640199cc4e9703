//! The server from outside: over real sockets, with real clients.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod access;
mod clients;
mod discovery;
mod encrypted;
mod errors;
mod joining;
mod kubectl;
mod reading;
mod replicas;
mod support;
mod watching;
mod writing;
