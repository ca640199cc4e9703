//! The server from outside: over real sockets, with real clients.
#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
mod access;
mod audit;
mod bad_clients;
mod clients;
mod discovery;
mod each;
mod encrypted;
mod errors;
mod giving;
mod joining;
mod kube_rs;
mod kubectl;
mod lasting;
mod limits;
mod mesh;
mod oidc;
mod ports;
mod reading;
mod replicas;
mod storage;
mod subresources;
mod support;
mod versions;
mod watching;
mod wire;
mod writing;
