//! gRPC services of the server itself.
pub mod commands;
pub mod hub;
pub mod identity;
pub mod reflection;
pub mod replicas;
pub mod routes;
