//! The mesh controller against real peers: Envoy itself, and plain gRPC clients.
mod aggregated;
mod azure;
mod backend;
mod connections;
mod control_plane;
mod delta;
mod endpoints;
mod envoy;
mod expressions;
mod failing;
mod http;
mod kubernetes;
mod layers;
mod mutual;
mod ports;
mod streams;
mod wait;
