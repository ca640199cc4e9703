//! The agents' side of the fleet: connections, assignments, states, nodes.
pub mod assignments;
pub mod connection;
pub mod grpc;
pub mod nodes;
pub mod states;
