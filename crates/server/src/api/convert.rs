//! Resources between the wire and the hub.
use super::errors::{unreadable, unresolved};
use crate::identity::Guard;
use bytes::Bytes;
use orrery_api::{
    DecodeError, DecodeOptions, Encoded, Form, JsonOptions, Kind, Object, ObjectError, ReadError,
    Scheme, parse_json, parse_json_noting,
};
use orrery_hub::{Accessor, Applied, ApplyOptions, Error};
use orrery_proto::hub::v1::{Encoding, KindInfo, Resource, resource::Body};
use orrery_proto::options::v1::Column;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A resource in the version that its sender speaks, exactly as it was sent: the hub fills in
/// defaults, and whoever declares fields does not own what it left out.
pub(super) enum Given {
    Object(Object),
    /// Not looked at yet.
    Bytes(Encoded),
}

impl Given {
    pub fn kind(&self) -> &Arc<Kind> {
        match self {
            Self::Object(object) => object.kind(),
            Self::Bytes(encoded) => encoded.kind(),
        }
    }

    /// Its project and its name.
    pub fn place(&self) -> Result<(&str, &str), Error> {
        match self {
            Self::Object(object) => Ok((object.project(), object.name())),
            Self::Bytes(encoded) => {
                let place = (encoded.project(), encoded.name());
                Ok((place.0.map_err(misread)?, place.1.map_err(misread)?))
            }
        }
    }

    /// The same in the version of the hub.
    pub fn into_hub(self, scheme: &Scheme) -> Result<Self, Error> {
        if self.kind().spoke_of().is_none() {
            return Ok(self);
        }
        let object = match self {
            Self::Object(object) => object,
            Self::Bytes(encoded) => encoded.into_object().map_err(misread)?,
        };
        let converted = scheme.to_hub(&object);
        converted.map(Self::Object).map_err(|error| Error::BadRequest(error.to_string()))
    }

    /// Writes it. What becomes of it is written as bytes once, for the store and for the answer.
    pub async fn apply(
        self,
        accessor: &dyn Accessor,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        match self {
            Self::Bytes(encoded) => accessor.apply_encoded(encoded, options).await,
            Self::Object(object) => accessor.apply_encoded(object.into(), options).await,
        }
    }
}

fn misread(error: ObjectError) -> Error {
    Error::BadRequest(error.to_string())
}

pub(super) fn read(scheme: &Scheme, resource: &Resource) -> Result<Given, Error> {
    match &resource.body {
        Some(Body::Json(text)) => {
            let parsed = parse_json_noting(text.as_bytes()).map_err(ReadError::from);
            let (mut value, twice) = parsed.map_err(|error| unreadable(error, &Value::Null))?;
            if !twice.is_empty() {
                return Err(unreadable(DecodeError::Invalid(twice).into(), &value));
            }
            let kind = kind_of_json(scheme, resource, &mut value)?;
            let read = Object::from_json_value(&kind, &value, &DecodeOptions::default());
            let read = read.map_err(ReadError::from).map_err(|error| unreadable(error, &value))?;
            Ok(Given::Object(read.object))
        }
        Some(Body::Protobuf(bytes)) => {
            let kind = scheme.resolve(&resource.api_version, &resource.kind).map_err(unresolved)?;
            Ok(Given::Bytes(Encoded::new(&kind, bytes.clone())))
        }
        None => Err(Error::BadRequest("the request holds no resource".into())),
    }
}

/// The kind of a resource in JSON. It says so itself, or else the message around it; both may, if they agree.
fn kind_of_json(
    scheme: &Scheme,
    resource: &Resource,
    value: &mut Value,
) -> Result<Arc<Kind>, Error> {
    let Resource { api_version, kind, .. } = resource;
    if let Value::Object(fields) = value
        && !kind.is_empty()
        && !says(fields, "kind")
        && !says(fields, "apiVersion")
    {
        let kind = scheme.resolve(api_version, kind).map_err(unresolved)?;
        fields.insert("apiVersion".to_owned(), kind.api_version().into());
        fields.insert("kind".to_owned(), kind.kind().into());
        return Ok(kind);
    }
    let found = scheme.kind_of_value(value).map_err(|error| unreadable(error, value))?;
    let around = match (api_version.as_str(), kind.as_str()) {
        ("", "") => return Ok(found),
        ("", kind) => scheme.resolve(found.api_version(), kind),
        (api_version, "") => scheme.resolve(api_version, found.kind()),
        (api_version, kind) => scheme.resolve(api_version, kind),
    };
    match around {
        Ok(around) if around == found => Ok(found),
        Ok(_) | Err(_) => Err(Error::BadRequest(format!(
            "Resource.api_version and Resource.kind ({api_version:?}, {kind:?}) disagree with the JSON, which is of {} {}",
            found.api_version(),
            found.kind(),
        ))),
    }
}

fn says(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).is_some_and(|value| !value.is_null() && value != "")
}

/// The kind that a resource says it is of, if there is such a kind.
pub(super) fn kind_of(scheme: &Scheme, resource: &Resource) -> Option<Arc<Kind>> {
    match &resource.body {
        Some(Body::Json(text)) => {
            kind_of_json(scheme, resource, &mut parse_json(text.as_bytes()).ok()?).ok()
        }
        Some(Body::Protobuf(_)) => scheme.resolve(&resource.api_version, &resource.kind).ok(),
        None => None,
    }
}

/// A resource as its receiver wants it.
pub(super) fn encode(
    scheme: &Scheme,
    hub: &Object,
    kind: &Arc<Kind>,
    encoding: Encoding,
) -> Result<Resource, Error> {
    if hub.kind() == kind {
        return Ok(resource(kind, body(hub, encoding)));
    }
    let converted = scheme.from_hub(hub, kind);
    let object = converted.map_err(|error| Error::Internal(error.to_string()))?;
    Ok(resource(kind, body(&object, encoding)))
}

fn body(object: &Object, encoding: Encoding) -> Body {
    match encoding {
        Encoding::Protobuf => Body::Protobuf(object.encode().into()),
        Encoding::Json => Body::Json(object.to_json(&JsonOptions::default())),
    }
}

fn resource(kind: &Kind, body: Body) -> Resource {
    Resource {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind().to_owned(),
        body: Some(body),
    }
}

/// Writes resources of one kind in one form. What several receivers want alike is written once.
pub(super) struct Writer {
    /// What the receiver may see.
    pub guard: Guard,
    pub scheme: Arc<Scheme>,
    pub kind: Arc<Kind>,
    pub encoding: Encoding,
}

impl Writer {
    /// What the receivers that want the same have in common.
    pub fn form(&self) -> Form {
        let name = format!("grpc {} {}", self.encoding.as_str_name(), self.kind.api_version());
        Form { name: name.into(), number: 0 }
    }

    /// For one receiver.
    pub fn write(&self, found: &Encoded) -> Result<Resource, Error> {
        if self.hides(found) {
            let object = found.object().map_err(unfit)?;
            let shown = self.guard.shown(object);
            return encode(&self.scheme, &shown, &self.kind, self.encoding);
        }
        if self.as_it_is(found) {
            return Ok(resource(&self.kind, Body::Protobuf(found.bytes().clone())));
        }
        encode(&self.scheme, found.object().map_err(unfit)?, &self.kind, self.encoding)
    }

    /// For many who want the same.
    pub fn write_shared(&self, form: &Form, found: &Encoded) -> Result<Resource, Error> {
        // What one may see, another may not: only what hides nothing is shared.
        if self.as_it_is(found) || self.hides(found) {
            return self.write(found);
        }
        let bytes = found.form(form, || {
            Ok::<_, Error>(match self.write(found)?.body {
                Some(Body::Protobuf(bytes)) => bytes,
                Some(Body::Json(text)) => text.into(),
                None => Bytes::new(),
            })
        })?;
        let body = match self.encoding {
            Encoding::Protobuf => Body::Protobuf(bytes),
            Encoding::Json => {
                let text = String::from_utf8(bytes.into());
                Body::Json(text.map_err(|error| Error::Internal(error.to_string()))?)
            }
        };
        Ok(resource(&self.kind, body))
    }

    /// Whether there may be something that the receiver must not see.
    fn hides(&self, found: &Encoded) -> bool {
        found.kind().has_secrets() && !self.guard.sees_everything()
    }

    /// Whether the bytes of the hub are what the receiver wants.
    fn as_it_is(&self, found: &Encoded) -> bool {
        self.encoding == Encoding::Protobuf && *found.kind() == self.kind
    }
}

pub(super) fn unfit(error: ObjectError) -> Error {
    Error::Internal(error.to_string())
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
        shareable: kind.shareable(),
        versioned: kind.versioned(),
        copies_path: kind.scale().map(|scale| scale.spec_path.clone()).unwrap_or_default(),
    }
}

/// A value of an enumeration of the wire, unless it is one that is not known: it must not become the default.
pub(super) fn known<T: TryFrom<i32>>(field: &str, value: i32) -> Result<T, Error> {
    T::try_from(value).map_err(|_| Error::BadRequest(format!("{field}: {value} is not known")))
}
