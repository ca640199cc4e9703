//! The provider: one handler for each operation, and the server behind it.
mod changes;
mod diagnostics;
mod exchange;
mod looking;
mod protocol5;
mod server;
mod service;
mod settings;
mod waiting;

pub use service::ProviderService;
