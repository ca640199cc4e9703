//! Between single values of Terraform and the JSON of a resource. Pure.
use crate::schema::Form;
use crate::value::{Number, Type, Value};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A value, or a collection of them, as JSON. What is not known is left out.
pub fn plain_to_json(value: &Value, form: Form) -> Option<Json> {
    match (value, form) {
        (Value::Null | Value::Unknown(_), _) => None,
        (Value::String(text), Form::JsonText) => {
            // What is no JSON goes on as the text it is; the server says what is wrong with it.
            Some(serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.clone())))
        }
        (Value::Bool(value), _) => Some(Json::Bool(*value)),
        (Value::String(text), _) => Some(Json::String(text.clone())),
        // A number that does not fit goes on as text, and is refused with the name of its field.
        (Value::Number(number), _) => {
            Some(number.to_json().map_or_else(|| Json::String(number.to_string()), Json::Number))
        }
        (Value::List(items), _) => {
            Some(items.iter().map(|item| plain_to_json(item, form).unwrap_or(Json::Null)).collect())
        }
        (Value::Map(entries), _) => {
            let entries = entries.iter().filter_map(|(name, value)| {
                let absent = || (form == Form::Opaque).then_some(Json::Null);
                Some((name.clone(), plain_to_json(value, form).or_else(absent)?))
            });
            Some(Json::Object(entries.collect()))
        }
        (Value::Dynamic(inner), _) => plain_to_json(&inner.1, form),
    }
}

/// JSON as a value of a type. JSON of another type, which only a server of another version sends, is null.
pub fn plain_from_json(json: &Json, r#type: &Type, form: Form) -> Value {
    match (r#type, json) {
        (_, Json::Null) => Value::Null,
        (Type::String, json) if form == Form::JsonText => Value::text(json.to_string()),
        (Type::Dynamic, json) => {
            let r#type = type_of(json);
            let value = plain_from_json(json, &r#type, form);
            Value::Dynamic(Box::new((r#type, value)))
        }
        (Type::Bool, Json::Bool(value)) => Value::Bool(*value),
        (Type::Number, Json::Number(number)) => Value::Number(Number::from_json(number)),
        (Type::String, Json::String(text)) => Value::text(text),
        (Type::List(item), Json::Array(items)) => Value::List(each(items, item, form)),
        (Type::Set(item), Json::Array(items)) => Value::set(each(items, item, form)),
        (Type::Tuple(types), Json::Array(items)) => {
            let items = items.iter().zip(types);
            Value::List(items.map(|(json, r#type)| plain_from_json(json, r#type, form)).collect())
        }
        (Type::Map(value), Json::Object(entries)) => {
            let each = entries.iter();
            let each = each.map(|(name, json)| (name.clone(), plain_from_json(json, value, form)));
            Value::Map(each.collect())
        }
        (Type::Object(attributes), Json::Object(entries)) => {
            let of = |name: &String| entries.get(name).unwrap_or(&Json::Null);
            let each = attributes.iter();
            let each =
                each.map(|(name, r#type)| (name.clone(), plain_from_json(of(name), r#type, form)));
            Value::Map(each.collect())
        }
        (_, _) => Value::Null,
    }
}

fn each(items: &[Json], r#type: &Type, form: Form) -> Vec<Value> {
    items.iter().map(|json| plain_from_json(json, r#type, form)).collect()
}

/// The type that Terraform gives to JSON: objects and tuples, never maps and lists.
fn type_of(json: &Json) -> Type {
    match json {
        Json::Null => Type::Dynamic,
        Json::Bool(_) => Type::Bool,
        Json::Number(_) => Type::Number,
        Json::String(_) => Type::String,
        Json::Array(items) => Type::Tuple(items.iter().map(type_of).collect()),
        Json::Object(entries) => {
            let each = entries.iter().map(|(name, json)| (name.clone(), type_of(json)));
            Type::Object(each.collect::<BTreeMap<_, _>>())
        }
    }
}

/// Whether two values mean the same, however they are written.
pub fn same(a: &Value, b: &Value, form: Form) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => same_text(a, b, form),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, form))
        }
        (Value::Map(a), Value::Map(b)) => {
            a.len() == b.len()
                && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b, form)))
        }
        (Value::Dynamic(_), _) | (_, Value::Dynamic(_)) => {
            match (plain_to_json(a, form), plain_to_json(b, form)) {
                (Some(a), Some(b)) => same_json(&a, &b),
                (a, b) => a.is_none() && b.is_none(),
            }
        }
        (a, b) => a == b,
    }
}

fn same_text(a: &str, b: &str, form: Form) -> bool {
    if a == b {
        return true;
    }
    match form {
        Form::Natural | Form::Opaque => false,
        Form::Bytes => bytes(a).is_some_and(|a| bytes(b) == Some(a)),
        Form::Time => time(a).is_some_and(|a| time(b) == Some(a)),
        Form::Duration => simplest(a) == simplest(b),
        Form::JsonText => match (serde_json::from_str(a), serde_json::from_str(b)) {
            (Ok(a), Ok(b)) => same_json(&a, &b),
            (_, _) => false,
        },
    }
}

/// Bytes from the ways of base64 that servers read.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

fn time(text: &str) -> Option<jiff::Timestamp> {
    text.parse().ok()
}

/// A decimal number of seconds without zeros that say nothing.
fn simplest(duration: &str) -> String {
    let (sign, digits) = match duration.trim_end_matches('s').split_at_checked(1) {
        Some(("-", digits)) => ("-", digits),
        _ => ("", duration.trim_end_matches('s')),
    };
    let digits = digits.trim_start_matches('0');
    let digits = if digits.contains('.') { digits.trim_end_matches('0') } else { digits };
    format!("{sign}{}", digits.trim_end_matches('.'))
}

/// Whether JSON means the same: `1` and `1.0` are one number, and nothing is the same as null.
fn same_json(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => Number::from_json(a) == Number::from_json(b),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_json(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            let of = |map: &serde_json::Map<String, Json>, name: &str| {
                map.get(name).cloned().unwrap_or(Json::Null)
            };
            a.keys().chain(b.keys()).all(|name| same_json(&of(a, name), &of(b, name)))
        }
        (a, b) => a == b,
    }
}
