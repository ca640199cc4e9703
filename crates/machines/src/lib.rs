//! Machines and the drivers that make them.
//!
//! ```text
//!   class, deployment, set, machine          providers
//!            |                                   ^
//!            v                                   | each in its own way
//!   controller (thin) --asks--> plan (pure)
//!            |
//!            +--operations--> drivers --stream--> driver processes
//! ```
//!
//! Owns: the service that drivers register at ([`drivers`]), the decisions about machines
//! ([`plan`]), the loop bodies that carry them out ([`controller`]) and what they read and write in the
//! hub ([`resources`]). Not in it: the drivers
//! themselves and the library they are written with (crate `driver`), agents and what runs on a
//! machine (crate `fleet`), the store, certificates.
pub mod controller;
pub mod drivers;
pub mod plan;
pub mod resources;
