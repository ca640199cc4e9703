//! The service mesh controller: what is declared and where it runs, told to every proxy.
//!
//! Owns: the catalog.
//! Not in it: TLS.
pub mod address;
pub mod announce;
pub mod catalog;
pub mod names;
pub mod providers;
pub mod secrets;
pub mod topology;
pub mod xds;
