//! Generated code of every contract in `proto/`, and the descriptors they were generated from.
//!
//! Owns: the wire types. Not in it: behaviour of any kind.

/// The descriptor set of all contracts, with their comments and options, as protobuf bytes.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/orrery.fds"));

/// Makes the module tree that generated code expects: `orrery::apps::v1` and its siblings.
macro_rules! packages {
    ($($group:ident),* $(,)?) => {
        pub mod orrery {
            $(pub mod $group {
                #[allow(clippy::all, missing_docs)]
                pub mod v1 {
                    include!(concat!(env!("OUT_DIR"), "/orrery.", stringify!($group), ".v1.rs"));
                }
            })*
        }
    };
}

packages!(apps, core, fleet, hub, identity, infra, mesh, meta, options, storage, volumes);

pub use orrery::{apps, core, fleet, hub, identity, infra, mesh, meta, options, storage, volumes};

pub mod codec;
mod redact;

#[cfg(test)]
mod oim_tests;

/// Used by the build script to take `oim.v0` out of its specification.
pub mod markdown;

/// The contract between the storage registry, storage controllers and hosts (docs/spec/oim.md).
pub mod oim {
    #[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
    pub mod v0 {
        include!(concat!(env!("OUT_DIR"), "/oim.v0.rs"));
        /// The contract as a `.proto` file, for clients in other languages.
        pub const PROTO: &str = include_str!(concat!(env!("OUT_DIR"), "/oim.proto"));
    }
}

/// The Container Storage Interface.
pub mod csi {
    #[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/csi.v1.rs"));
    }
}

/// The kinds of the Service Mesh Interface, in every version it had.
#[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
pub mod smi {
    include!(concat!(env!("OUT_DIR"), "/smi.rs"));

    /// One module for each version of a group.
    macro_rules! versions {
        ($group:ident: $($version:ident),*) => {
            pub mod $group {
                $(pub mod $version {
                    include!(concat!(
                        env!("OUT_DIR"), "/smi.", stringify!($group), ".", stringify!($version), ".rs"
                    ));
                })*
            }
        };
    }

    versions!(split: v1alpha1, v1alpha2, v1alpha3, v1alpha4);
    versions!(access: v1alpha1, v1alpha2, v1alpha3, v1alpha4);
    versions!(specs: v1alpha1, v1alpha2, v1alpha3, v1alpha4);
}

/// The descriptor set of the Service Mesh Interface, as protobuf bytes.
pub const SMI_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/smi.fds"));

/// The descriptor set of `oim.v0` and `csi.v1`, as protobuf bytes.
pub const STORAGE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/storage.fds"));

/// The machine-driver contract, package `infra`. It is older than our own packages, hence neither
/// versioned nor spelled like them.
#[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
pub mod infragrpc {
    include!(concat!(env!("OUT_DIR"), "/infra.rs"));
}
