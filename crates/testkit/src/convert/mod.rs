//! The convertors of the test kinds. They lose nothing: what the other side cannot say is kept.
mod bundle;
mod v1beta1;
mod v2alpha1;

use std::sync::Arc;

use orrery_api::{ConvertError, Kind, Object};
use prost_reflect::{DynamicMessage, Value};

pub use bundle::BundleConvertor;
pub use v1beta1::GadgetV1beta1Convertor;
pub use v2alpha1::GadgetV2alpha1Convertor;

/// The only part of a spoke that is another version.
fn only<'o>(hub: &Kind, parts: &'o [Object]) -> Result<&'o Object, ConvertError> {
    parts.first().ok_or_else(|| missing("Gadget", hub))
}

fn only_kind<'k>(hub: &Kind, parts: &'k [Arc<Kind>]) -> Result<&'k Arc<Kind>, ConvertError> {
    parts.first().ok_or_else(|| missing("Gadget", hub))
}

fn missing(part: &str, hub: &Kind) -> ConvertError {
    ConvertError::MissingPart { part: part.to_owned(), of: hub.qualified_plural() }
}

/// Changes the spec of an object, which is there afterwards.
fn edit_spec(object: &mut Object, edit: impl FnOnce(&mut DynamicMessage)) {
    object.edit_message(|message| {
        if let Some(Value::Message(spec)) = message.get_field_by_name_mut("spec") {
            edit(spec);
        }
    });
}

/// Sets a field of a message, or clears it.
fn put(message: &mut DynamicMessage, field: &str, value: Option<Value>) {
    match value {
        Some(value) => message.set_field_by_name(field, value),
        None => message.clear_field_by_name(field),
    }
}

fn text(value: Option<String>) -> Option<Value> {
    value.map(Value::String)
}

fn texts(values: Vec<String>) -> Option<Value> {
    (!values.is_empty()).then(|| Value::List(values.into_iter().map(Value::String).collect()))
}

/// Takes over status as it is: all versions share its definition.
fn copy_status(from: &Object, to: &mut Object) -> Result<(), ConvertError> {
    Ok(to.share_status_of(from)?)
}
