//! The generated types of the wire.

/// Terraform's protocol 6.
#[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
pub mod tfplugin6 {
    tonic::include_proto!("tfplugin6");

    /// Values hold secrets.
    impl std::fmt::Debug for DynamicValue {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "DynamicValue({} bytes)", self.msgpack.len() + self.json.len())
        }
    }

    /// So does state.
    impl std::fmt::Debug for RawState {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "RawState({} bytes)", self.json.len())
        }
    }
}

/// Terraform's protocol 5.
#[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
pub mod tfplugin5 {
    tonic::include_proto!("tfplugin5");
}

/// What every plugin serves.
#[allow(clippy::all, clippy::wildcard_enum_match_arm, missing_docs)]
pub mod plugin {
    tonic::include_proto!("plugin");
}
