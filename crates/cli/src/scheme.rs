//! The kinds as this build knows them, under the server's names.
use orrery_api::{DEFAULT_GROUP_SUFFIX, Kind, Scheme, SchemeError};
use orrery_proto::hub::v1::{DiscoverResponse, KindInfo};
use std::sync::Arc;

/// The kinds of this build, with the ending that the server's groups have.
pub fn local(known: Option<&DiscoverResponse>) -> Result<Scheme, SchemeError> {
    let suffix = known.map_or(DEFAULT_GROUP_SUFFIX, |known| known.group_suffix.as_str());
    let scheme = Scheme::builder().group_suffix(suffix);
    orrery_server::rules(scheme.descriptors(orrery_proto::FILE_DESCRIPTOR_SET)).build()
}

/// The same, but only where the server is of this version and so means the same.
pub fn shared(known: &DiscoverResponse) -> Result<Option<Scheme>, SchemeError> {
    if known.server_version != orrery_client::VERSION {
        return Ok(None);
    }
    local(Some(known)).map(Some)
}

/// The definition of a kind that the server told of.
pub fn definition(scheme: &Scheme, kind: &KindInfo) -> Option<Arc<Kind>> {
    scheme.lookup(&kind.group, &kind.version, &kind.kind).cloned()
}
