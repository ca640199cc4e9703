//! The storage manager's edge: a storage controller with its backends, and the CSI driver.
//!
//! ```text
//!  oim.v0.Controller --+                      +-- loop  (kernel, image files)
//!  orrery.volumes.v1 --+--> Volumes --------->+-- qemu  (qemu-storage-daemon)
//!  CSI, local        --+    ledger, guards    +-- spdk  (JSON-RPC)
//!  CSI, remote --> registry's proxy --> the services of a controller elsewhere
//! ```
//!
//! Owns: the rules of mapping and provisioning ([`Volumes`]), what backends do, how a device becomes
//! a mounted file system, and registering with the registry. Not in it: the registry and its proxy
//! (`orrery-volumes`), placement of volumes (the server's controllers), certificates (rustls
//! configurations are passed in), the binary.

pub mod backend;
pub mod clock;
pub mod csi;
pub mod error;
mod guard;
pub mod host;
pub mod ledger;
mod manager;
pub mod pool;
pub mod run;
pub mod service;
pub mod volume;

pub use clock::Clock;
pub use error::{Error, Result};
pub use manager::{Request, Volumes};
pub use pool::Pool;
