//! Values, states and schemas on their way in and out.
use super::diagnostics::error;
use super::settings;
use crate::schema::{Catalog, ResourceType, Style, schema};
use crate::value::{Type, Value, decode, encode, read_state};
use crate::wire::tfplugin6 as wire;
use std::collections::{BTreeMap, HashMap};
use tonic::Status;

/// What the provider can do beyond the least.
const CAPABILITIES: wire::ServerCapabilities = wire::ServerCapabilities {
    plan_destroy: false,
    get_provider_schema_optional: true,
    move_resource_state: true,
};

/// A value of a resource or data source.
pub fn take(of: &ResourceType, value: Option<&wire::DynamicValue>) -> Result<Value, Status> {
    read(value, of.r#type()).map(|value| of.taken(value))
}

/// The same on its way out.
pub fn give(of: &ResourceType, value: Value) -> Option<wire::DynamicValue> {
    Some(wire::DynamicValue { msgpack: encode(&of.given(value)), json: Vec::new() })
}

/// The configuration of the provider.
pub fn take_config(config: Option<&wire::DynamicValue>) -> Result<Value, Status> {
    read(config, &settings::schema().r#type())
}

fn read(value: Option<&wire::DynamicValue>, r#type: &Type) -> Result<Value, Status> {
    let Some(value) = value else { return Ok(Value::Null) };
    let wrong = |problem: String| Status::invalid_argument(problem);
    if value.msgpack.is_empty() && !value.json.is_empty() {
        let json = serde_json::from_slice(&value.json);
        let json = json.map_err(|_| wrong("a value is no JSON".to_owned()))?;
        return read_state(&json, r#type).map_err(|error| wrong(error.to_string()));
    }
    decode(&value.msgpack, r#type).map_err(|error| wrong(error.to_string()))
}

/// A state as it lies in a file, as one of this version.
pub fn stored(
    of: &ResourceType,
    raw: Option<&wire::RawState>,
) -> Result<Value, Vec<wire::Diagnostic>> {
    let wrong = |detail: String| vec![error("The stored state cannot be read", detail)];
    let json = raw.map(|raw| raw.json.as_slice()).filter(|json| !json.is_empty());
    let json = json.ok_or_else(|| {
        wrong("It is not in JSON; no version of this provider wrote it.".to_owned())
    })?;
    let json = serde_json::from_slice(json).map_err(|cause| wrong(cause.to_string()))?;
    let state = read_state(&json, of.r#type()).map_err(|cause| wrong(cause.to_string()))?;
    Ok(of.taken(state))
}

/// The names of types of these styles.
pub fn names(catalog: &Catalog, styles: &[Style]) -> wire::MetadataResponse {
    let names = |types: &BTreeMap<String, ResourceType>| {
        let of = types.values().filter(|of| styles.contains(&of.style));
        of.map(|of| wire::metadata_response::TypeName { type_name: of.name.clone() }).collect()
    };
    wire::MetadataResponse {
        server_capabilities: Some(CAPABILITIES),
        diagnostics: Vec::new(),
        data_sources: names(&catalog.data_sources),
        resources: names(&catalog.resources),
    }
}

/// The schemas of types of these styles, and of the provider itself.
pub fn schemas(catalog: &Catalog, styles: &[Style]) -> wire::SchemaResponse {
    let schemas = |types: &BTreeMap<String, ResourceType>| -> HashMap<String, wire::Schema> {
        let of = types.values().filter(|of| styles.contains(&of.style));
        of.map(|of| (of.name.clone(), schema(of.object(), of.style, of.description()))).collect()
    };
    let own = schema(&settings::schema(), Style::Attributes, "Resources of an Orrery server.");
    wire::SchemaResponse {
        provider: Some(own),
        resource_schemas: schemas(&catalog.resources),
        data_source_schemas: schemas(&catalog.data_sources),
        diagnostics: Vec::new(),
        provider_meta: None,
        server_capabilities: Some(CAPABILITIES),
    }
}

/// A value, or what is wrong.
pub fn split<T: Default>(outcome: Result<T, Vec<wire::Diagnostic>>) -> (T, Vec<wire::Diagnostic>) {
    match outcome {
        Ok(value) => (value, Vec::new()),
        Err(diagnostics) => (T::default(), diagnostics),
    }
}
