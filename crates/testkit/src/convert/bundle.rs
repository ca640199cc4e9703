//! Bundle in the store: a head, and one snapshot for each release.
use std::{collections::HashMap, sync::Arc};

use orrery_api::{ConvertError, Convertor, Kind, Object, keep_rest, take_rest};
use prost_reflect::{DynamicMessage, Value};

use super::{edit_spec, missing, put, text, texts};
use crate::v1;

/// Converts between a Bundle and its stored resources.
pub struct BundleConvertor;

impl Convertor for BundleConvertor {
    fn init(&self, hub: &Arc<Kind>, parts: &[Arc<Kind>]) -> Result<(), ConvertError> {
        for part in ["BundleHead", "BundleSnapshot"] {
            find_kind(hub, parts, part)?;
        }
        Ok(())
    }

    fn to_hub(&self, hub: &Arc<Kind>, parts: &[Object]) -> Result<Object, ConvertError> {
        let head = parts.iter().find(|part| part.kind().kind() == "BundleHead");
        let head = head.ok_or_else(|| missing("BundleHead", hub))?;
        let mut object = take_rest(hub, head)?;
        let Some(spec) = head.typed::<v1::BundleHead>()?.spec else { return Ok(object) };
        let stored = snapshots(parts)?;
        let mut releases = Vec::new();
        for name in &spec.releases {
            let release = stored.get(name.as_str());
            let release = release.ok_or_else(|| missing(&format!("release {name}"), hub))?;
            releases.push(Value::Message(release.clone()));
        }
        edit_spec(&mut object, |bundle| {
            put(bundle, "owner", text(spec.owner));
            put(bundle, "releases", (!releases.is_empty()).then_some(Value::List(releases)));
        });
        Ok(object)
    }

    fn from_hub(&self, hub: &Object, parts: &[Arc<Kind>]) -> Result<Vec<Object>, ConvertError> {
        let mut head = Object::new(find_kind(hub.kind(), parts, "BundleHead")?);
        head.copy_metadata_from(hub)?;
        let mut stored = Vec::new();
        if let Some(spec) = hub.typed::<v1::Bundle>()?.spec {
            let names: Vec<String> = spec.releases.iter().map(|r| r.name().to_owned()).collect();
            edit_spec(&mut head, |head| {
                put(head, "owner", text(spec.owner));
                put(head, "releases", texts(names));
            });
            stored = split(hub, find_kind(hub.kind(), parts, "BundleSnapshot")?);
        }
        keep_rest(&mut head, rest_of(hub));
        stored.insert(0, head);
        Ok(stored)
    }
}

fn find_kind<'k>(
    hub: &Kind,
    parts: &'k [Arc<Kind>],
    name: &str,
) -> Result<&'k Arc<Kind>, ConvertError> {
    parts.iter().find(|kind| kind.kind() == name).ok_or_else(|| missing(name, hub))
}

fn rest_of(hub: &Object) -> Object {
    let mut rest = hub.clone();
    if rest.spec().is_some() {
        edit_spec(&mut rest, |spec| {
            spec.clear_field_by_name("owner");
            spec.clear_field_by_name("releases");
        });
    }
    rest
}

/// The releases of the stored snapshots, by their name.
fn snapshots(parts: &[Object]) -> Result<HashMap<String, DynamicMessage>, ConvertError> {
    let mut releases = HashMap::new();
    for part in parts.iter().filter(|part| part.kind().kind() == "BundleSnapshot") {
        let name = part.typed::<v1::BundleSnapshot>()?.spec.and_then(|spec| spec.release);
        let name = name.map(|release| release.name().to_owned()).unwrap_or_default();
        if let Some(release) = release_of(&part.to_message()) {
            releases.insert(name, release);
        }
    }
    Ok(releases)
}

fn release_of(snapshot: &DynamicMessage) -> Option<DynamicMessage> {
    let spec = snapshot.get_field_by_name("spec")?.into_owned();
    let (field, release) = spec.as_message()?.fields().find(|(it, _)| it.name() == "release")?;
    field.kind().as_message().and(release.as_message().cloned())
}

/// One snapshot for each release, in the project of the bundle.
fn split(hub: &Object, kind: &Arc<Kind>) -> Vec<Object> {
    let hub_message = hub.to_message();
    let spec = hub_message.get_field_by_name("spec");
    let releases = spec.as_ref().and_then(|spec| spec.as_message()?.get_field_by_name("releases"));
    let releases = releases.as_ref().and_then(|releases| releases.as_list()).unwrap_or_default();
    let mut stored = Vec::new();
    for release in releases {
        let name = release.as_message().and_then(|release| release.get_field_by_name("name"));
        let name = name.as_ref().and_then(|name| name.as_str()).unwrap_or_default();
        let mut snapshot = Object::new(kind);
        snapshot.set_name(&format!("{}-{name}", hub.name()));
        snapshot.set_project(hub.project());
        edit_spec(&mut snapshot, |spec| {
            spec.set_field_by_name("bundle", Value::String(hub.name().to_owned()));
            spec.set_field_by_name("release", release.clone());
        });
        stored.push(snapshot);
    }
    stored
}
