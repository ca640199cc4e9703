//! The agents' side of the fleet: connections, assignments, states, nodes.
pub mod assignments;
mod calm;
pub mod connection;
mod dependents;
pub mod execs;
pub mod files;
pub mod grpc;
mod labels;
pub mod loads;
pub mod logs;
pub mod nodes;
pub mod states;
pub mod telling;
pub mod unknown;
pub mod volumes;
