//! What the server says of an object, as state.
use super::plan::item_of;
use crate::convert::{bytes, plain_from_json, same};
use crate::schema::{Attribute, Form, Mode, Nesting, Object, Shape};
use crate::value::{Type, Value};
use serde_json::Value as Json;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Everything: for what is looked at, and for what is imported.
    All,
    /// What is known already, and what the server fills in.
    Known,
}

/// An object of the server. `known` is what was known of it: the state before, or the plan. Where both say the
/// same in other words, those of `known` stay.
pub fn show(object: &Object, json: &Json, known: &Value, view: View) -> Value {
    object.value(|attribute| {
        let Some(name) = &attribute.json else { return known.get(&attribute.name).clone() };
        let known = known.get(&attribute.name);
        match &attribute.kept_in {
            Some(keeper) => kept(&json[keeper], known),
            None => self::attribute(attribute, &json[name], known, view),
        }
    })
}

fn attribute(attribute: &Attribute, json: &Json, known: &Value, view: View) -> Value {
    let known = if known.is_unknown() { &Value::Null } else { known };
    match (&attribute.mode, view) {
        // What the configuration leaves out is somebody else's.
        (Mode::Required | Mode::Optional, View::Known) if known.is_null() => return Value::Null,
        _ => {}
    }
    let view = if attribute.is_computed() { View::All } else { view };
    match &attribute.shape {
        _ if json.is_null() => {
            if hollow(known) {
                known.clone()
            } else {
                Value::Null
            }
        }
        Shape::Plain(r#type, form) => plain(json, r#type, *form, known, view),
        Shape::Nested(nesting, object) => nested(nesting, object, json, known, view),
    }
}

fn plain(json: &Json, r#type: &Type, form: Form, known: &Value, view: View) -> Value {
    let found = plain_from_json(json, r#type, form);
    if same(&found, known, form) {
        return known.clone();
    }
    match (r#type, view, found) {
        // Labels and items of others are theirs.
        (Type::Map(_), View::Known, Value::Map(entries)) => {
            let known = known.as_map();
            let ours = entries.into_iter().filter_map(|(key, value)| {
                let old = known?.get(&key)?;
                Some((key, if same(&value, old, form) { old.clone() } else { value }))
            });
            Value::Map(ours.collect())
        }
        (Type::Set(_), View::Known, Value::List(items)) => {
            let known = known.as_list().unwrap_or_default();
            let ours = known.iter().filter(|old| items.iter().any(|item| same(item, old, form)));
            Value::set(ours.cloned().collect())
        }
        (_, _, found) => found,
    }
}

fn nested(nesting: &Nesting, object: &Object, json: &Json, known: &Value, view: View) -> Value {
    match nesting {
        Nesting::Single => show(object, json, known, view),
        // One value, ours as a whole.
        Nesting::List => {
            let before = known.as_list().unwrap_or_default();
            let items = json.as_array().into_iter().flatten().enumerate();
            let of = |at: usize| before.get(at).unwrap_or(&Value::Null);
            Value::List(items.map(|(at, json)| show(object, json, of(at), View::All)).collect())
        }
        Nesting::Keyed { key } => {
            let name = object.attribute(key).and_then(|key| key.json.as_deref()).unwrap_or(key);
            let items = json.as_array().into_iter().flatten();
            let items = items.filter_map(|json| {
                let wanted = json[name].as_str().map_or(Value::Null, Value::text);
                let before = item_of(known, key, &wanted);
                let shown = view == View::All || !before.is_null();
                shown.then(|| show(object, json, before, view))
            });
            Value::set(items.collect())
        }
        Nesting::Map => {
            let entries = json.as_object().into_iter().flatten();
            let entries = entries.filter_map(|(key, json)| {
                let before = known.get(key);
                let shown = view == View::All || !before.is_null();
                shown.then(|| (key.clone(), show(object, json, before, view)))
            });
            Value::Map(entries.collect())
        }
    }
}

/// Texts that are kept as bytes under another name: those that are known, as they are now.
fn kept(keeper: &Json, known: &Value) -> Value {
    let Value::Map(entries) = known else { return Value::Null };
    let now = entries.keys().filter_map(|key| {
        let text = String::from_utf8(bytes(keeper[key].as_str()?)?).ok()?;
        Some((key.clone(), Value::String(text)))
    });
    Value::Map(now.collect())
}

/// Whether a value says nothing, so that the server does not repeat it.
fn hollow(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Map(entries) => entries.values().all(|value| value.is_null() || hollow(value)),
        Value::Null | Value::Unknown(_) | Value::Bool(_) | Value::Number(_) | Value::Dynamic(_) => {
            false
        }
    }
}
