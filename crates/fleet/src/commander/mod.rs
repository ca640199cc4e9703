//! The commander connection: the command line and programs like it.
pub mod connection;
pub mod grpc;
pub mod handler;

pub use connection::CommanderConnections;
pub use handler::{Answer, CommandHandler};
