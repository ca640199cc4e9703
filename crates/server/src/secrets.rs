//! Secrets: what is written as text is kept as bytes.
use orrery_api::Object;
use orrery_hub::HubBuilder;
use prost_reflect::{DynamicMessage, MapKey, Value};

const SECRET: &str = "orrery.core.v1.Secret";

pub fn register(builder: HubBuilder) -> HubBuilder {
    builder.on_write(SECRET, take_text_in)
}

/// Takes `stringData` into `data`, where it wins over what stands there, as people expect it.
fn take_text_in(secret: &mut Object) {
    let message = secret.message_mut();
    if !message.has_field_by_name("spec") {
        return;
    }
    if let Some(spec) = message.get_field_by_name_mut("spec").and_then(Value::as_message_mut) {
        fold(spec);
    }
}

fn fold(spec: &mut DynamicMessage) {
    let Some(text) = spec.get_field_by_name("string_data") else { return };
    let text = text.as_map().cloned().unwrap_or_default();
    if text.is_empty() {
        return;
    }
    spec.clear_field_by_name("string_data");
    if let Some(data) = spec.get_field_by_name_mut("data").and_then(Value::as_map_mut) {
        data.extend(text.into_iter().map(as_bytes));
    }
}

fn as_bytes((name, text): (MapKey, Value)) -> (MapKey, Value) {
    let bytes = text.as_str().map(|text| text.to_owned().into_bytes()).unwrap_or_default();
    (name, Value::Bytes(bytes.into()))
}
