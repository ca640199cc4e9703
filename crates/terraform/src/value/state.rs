//! Values as they lie in a state file: JSON, read beside their type.
use super::{DEPTH_MAX, Number, Type, TypeError, Value};
use serde_json::Value as Json;

/// JSON that is no state of its type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    #[error("{at}: {found} where {expected} should be")]
    Mismatch { at: String, found: &'static str, expected: &'static str },
    #[error("{at}: nested too deeply")]
    Deep { at: String },
    #[error("{at}: {cause}")]
    Type { at: String, cause: TypeError },
}

/// Reads a state. Attributes that the type does not have are left out, and those that are missing are null: that
/// is how a state of an older version of the provider becomes one of this version.
pub fn read_state(json: &Json, r#type: &Type) -> Result<Value, StateError> {
    read(json, r#type, &mut String::from("state"), DEPTH_MAX)
}

fn read(json: &Json, r#type: &Type, at: &mut String, depth: usize) -> Result<Value, StateError> {
    let depth = depth.checked_sub(1).ok_or_else(|| StateError::Deep { at: at.clone() })?;
    match (r#type, json) {
        (_, Json::Null) => Ok(Value::Null),
        (Type::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (Type::Number, Json::Number(number)) => Ok(Value::Number(Number::from_json(number))),
        (Type::Number, Json::String(text)) => {
            Number::parse(text).map(Value::Number).ok_or_else(|| mismatch(at, json, r#type))
        }
        (Type::String, Json::String(text)) => Ok(Value::String(text.clone())),
        (Type::List(item), Json::Array(items)) => {
            each(items.iter().map(|json| (json, &**item)), at, depth).map(Value::List)
        }
        (Type::Set(item), Json::Array(items)) => {
            each(items.iter().map(|json| (json, &**item)), at, depth).map(Value::set)
        }
        (Type::Tuple(types), Json::Array(items)) if types.len() == items.len() => {
            each(items.iter().zip(types), at, depth).map(Value::List)
        }
        (Type::Map(value), Json::Object(entries)) => {
            let entries = entries
                .iter()
                .map(|(name, json)| Ok((name.clone(), below(name, json, value, at, depth)?)));
            entries.collect::<Result<_, _>>().map(Value::Map)
        }
        (Type::Object(attributes), Json::Object(entries)) => {
            let known = attributes.iter().map(|(name, r#type)| {
                let json = entries.get(name).unwrap_or(&Json::Null);
                Ok((name.clone(), below(name, json, r#type, at, depth)?))
            });
            known.collect::<Result<_, _>>().map(Value::Map)
        }
        (Type::Dynamic, Json::Object(pair)) => dynamic(pair, at, depth),
        (_, _) => Err(mismatch(at, json, r#type)),
    }
}

fn dynamic(
    pair: &serde_json::Map<String, Json>,
    at: &mut String,
    depth: usize,
) -> Result<Value, StateError> {
    let text = pair.get("type").unwrap_or(&Json::Null).to_string();
    let r#type =
        Type::parse(text.as_bytes()).map_err(|cause| StateError::Type { at: at.clone(), cause })?;
    let value = read(pair.get("value").unwrap_or(&Json::Null), &r#type, at, depth)?;
    Ok(Value::Dynamic(Box::new((r#type, value))))
}

fn below(
    name: &str,
    json: &Json,
    r#type: &Type,
    at: &mut String,
    depth: usize,
) -> Result<Value, StateError> {
    let mark = at.len();
    at.push('.');
    at.push_str(name);
    let value = read(json, r#type, at, depth)?;
    at.truncate(mark);
    Ok(value)
}

fn each<'a>(
    items: impl Iterator<Item = (&'a Json, &'a Type)>,
    at: &mut String,
    depth: usize,
) -> Result<Vec<Value>, StateError> {
    items.map(|(json, r#type)| read(json, r#type, at, depth)).collect()
}

fn mismatch(at: &str, json: &Json, r#type: &Type) -> StateError {
    let found = match json {
        Json::Null => "nothing",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    };
    let expected = match r#type {
        Type::Bool => "true or false",
        Type::Number => "a number",
        Type::String => "text",
        Type::List(_) | Type::Set(_) | Type::Tuple(_) => "a list",
        Type::Map(_) | Type::Object(_) => "an object",
        Type::Dynamic => "a type and a value",
    };
    StateError::Mismatch { at: at.to_owned(), found, expected }
}
