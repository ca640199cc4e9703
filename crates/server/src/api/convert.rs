//! Resources between the wire and the hub.
use super::errors::{unreadable, unresolved};
use orrery_api::{DecodeOptions, JsonOptions, Kind, Object, ReadError, Scheme, parse_json};
use orrery_hub::Error;
use orrery_proto::hub::v1::{Encoding, KindInfo, Resource, resource::Body};
use orrery_proto::options::v1::Column;
use std::sync::Arc;

/// A resource in the version that its sender speaks, exactly as it was sent: the hub fills in
/// defaults, and whoever declares fields does not own what it left out.
pub(super) fn decode(scheme: &Scheme, resource: &Resource) -> Result<Object, Error> {
    match &resource.body {
        Some(Body::Json(text)) => {
            let value = parse_json(text.as_bytes()).map_err(ReadError::from).map_err(unreadable)?;
            let kind = scheme.kind_of_value(&value).map_err(unreadable)?;
            let read = Object::from_json_value(&kind, &value, &DecodeOptions::default());
            Ok(read.map_err(ReadError::from).map_err(unreadable)?.object)
        }
        Some(Body::Protobuf(bytes)) => {
            let kind = scheme.resolve(&resource.api_version, &resource.kind).map_err(unresolved)?;
            Object::decode(&kind, bytes).map_err(|error| Error::BadRequest(error.to_string()))
        }
        None => Err(Error::BadRequest("the request holds no resource".into())),
    }
}

/// A resource as its receiver wants it.
pub(super) fn encode(
    scheme: &Scheme,
    hub: &Object,
    kind: &Arc<Kind>,
    encoding: Encoding,
) -> Result<Resource, Error> {
    let converted = scheme.from_hub(hub, kind);
    let object = converted.map_err(|error| Error::Internal(error.to_string()))?;
    let body = match encoding {
        Encoding::Protobuf => Body::Protobuf(object.encode().into()),
        Encoding::Json => Body::Json(object.to_json(&JsonOptions::default())),
    };
    Ok(Resource {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind().to_owned(),
        body: Some(body),
    })
}

pub(super) fn kind_info(kind: &Kind) -> KindInfo {
    let columns = kind.columns().iter().map(|column| Column {
        name: column.name.clone(),
        path: column.path.clone(),
        r#type: column.r#type.as_str().to_owned(),
        wide: column.wide,
    });
    KindInfo {
        group: kind.group().to_owned(),
        version: kind.version().to_owned(),
        kind: kind.kind().to_owned(),
        plural: kind.plural().to_owned(),
        singular: kind.singular().to_owned(),
        short_names: kind.short_names().to_vec(),
        categories: kind.categories().to_vec(),
        cluster_scoped: kind.cluster_scoped(),
        has_status: kind.has_status(),
        server_owned: kind.server_owned(),
        columns: columns.collect(),
    }
}
