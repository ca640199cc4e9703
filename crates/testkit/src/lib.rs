//! What only tests use: kinds that together have every shape a definition can have.
//!
//! Owns: the test kinds (`proto/`), their convertors and a scheme of them; with the feature `world`
//! a whole server in the test's own process, and agents that run nothing; the modules that a guest's kernel needs. Not in it: anything that a
//! program needs. It is a dev-dependency everywhere.
//!
//! | kind | what it is for |
//! |---|---|
//! | Gadget | every shape of field; hub version v1, spokes v1beta1 and v2alpha1 |
//! | Shelf | no project of its own, no status |
//! | Bundle | one resource for people, several in the store (BundleHead, BundleSnapshot) |
#[cfg(feature = "world")]
pub mod agent;
mod convert;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod modules;
#[cfg(feature = "world")]
pub mod world;

use std::sync::Arc;

use orrery_api::{Scheme, SchemeBuilder, SchemeError};

pub use convert::{BundleConvertor, GadgetV1beta1Convertor, GadgetV2alpha1Convertor};

/// The descriptor set of the test kinds, with all that they import.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/testkit.fds"));

/// The generated types of the test kinds, one module for each version.
macro_rules! versions {
    ($($version:ident),* $(,)?) => {
        $(#[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
        pub mod $version {
            include!(concat!(env!("OUT_DIR"), "/orrery.testkit.", stringify!($version), ".rs"));
        })*
    };
}

versions!(v1, v1beta1, v2alpha1);

/// Adds the test kinds and their convertors to a scheme.
pub fn register(builder: SchemeBuilder) -> SchemeBuilder {
    let parts = ["orrery.testkit.v1.BundleHead", "orrery.testkit.v1.BundleSnapshot"];
    builder
        .descriptors(FILE_DESCRIPTOR_SET)
        .convertor("orrery.testkit.v1beta1.Gadget", Arc::new(GadgetV1beta1Convertor))
        .convertor("orrery.testkit.v2alpha1.Gadget", Arc::new(GadgetV2alpha1Convertor))
        .spoke("orrery.testkit.v1.Bundle", "storage", &parts, Arc::new(BundleConvertor))
}

/// Our own kinds and the test kinds under the default suffix.
pub fn scheme() -> Result<Scheme, SchemeError> {
    register(Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET)).build()
}
