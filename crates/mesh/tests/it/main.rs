//! The mesh controller against real peers: Envoy itself, and plain gRPC clients.
mod aggregated;
mod azure;
mod backend;
mod control_plane;
mod endpoints;
mod envoy;
mod http;
mod kubernetes;
mod layers;
mod mutual;
mod streams;
mod wait;
