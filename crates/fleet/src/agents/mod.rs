//! The agents' side of the fleet: connections, assignments, states, nodes.
pub mod assignments;
pub mod connection;
mod dependents;
pub mod grpc;
mod labels;
pub mod logs;
pub mod nodes;
pub mod states;
pub mod volumes;
