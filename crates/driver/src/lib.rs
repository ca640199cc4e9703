//! The library that machine drivers are written with, and our own drivers.
//!
//! ```text
//!   server --Register stream--> conversation --> work --> your Driver
//!          <--answers----------                             |
//!          <--GetMachineClass, GetSecret---- DataProvider <-+
//! ```
//!
//! Implement [`Driver`] (create, delete, list and, if you like, status) and hand it to [`run`]. The
//! library registers, reconnects for ever, answers heartbeats, runs operations concurrently, keeps
//! deadlines and cancellations, gives one answer per idempotency key, and caches classes and secrets
//! by revision. `docs/write-a-driver.md` is the guide, `examples/memory.rs` a whole driver.
//!
//! Owns: the driver's side of the wire contract, and the drivers `aws`, `process` and `qemu`. Not in it:
//! when a machine is made or deleted (the server decides), agents, certificates (the caller brings
//! a TLS configuration).
#[cfg(feature = "aws")]
pub mod aws;
mod connect;
mod conversation;
mod data;
mod error;
mod model;
#[cfg(all(feature = "process", target_os = "linux"))]
pub mod process;
#[cfg(all(feature = "qemu", target_os = "linux"))]
pub mod qemu;
#[cfg(all(any(feature = "process", feature = "qemu"), target_os = "linux"))]
mod records;
mod run;
mod wire;
mod work;

pub use connect::{ConnectError, DEFAULT_PORT, channel};
pub use data::DataProvider;
pub use error::{Error, ErrorCode};
pub use model::{
    Class, Created, Driver, JOIN_TOKEN, Machine, MachineState, Request, Secret, SecretRef, USER_DATA,
};
pub use run::{MAX_CONCURRENT_DEFAULT, Options, run};
