//! The types of values, and their JSON.
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Bool,
    Number,
    String,
    /// Any; values bring their type along.
    Dynamic,
    List(Box<Type>),
    Set(Box<Type>),
    Map(Box<Type>),
    Tuple(Vec<Type>),
    Object(BTreeMap<String, Type>),
}

/// Deepest nesting of a type that came from outside.
const DEPTH_MAX: usize = 64;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value brings a type along that cannot be read")]
pub struct TypeError;

impl Type {
    pub fn list(item: Self) -> Self {
        Self::List(Box::new(item))
    }
    pub fn set(item: Self) -> Self {
        Self::Set(Box::new(item))
    }
    pub fn map(value: Self) -> Self {
        Self::Map(Box::new(value))
    }

    /// As schemas and values write it.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Bool => json!("bool"),
            Self::Number => json!("number"),
            Self::String => json!("string"),
            Self::Dynamic => json!("dynamic"),
            Self::List(item) => json!(["list", item.to_json()]),
            Self::Set(item) => json!(["set", item.to_json()]),
            Self::Map(value) => json!(["map", value.to_json()]),
            Self::Tuple(items) => {
                json!(["tuple", items.iter().map(Self::to_json).collect::<Vec<_>>()])
            }
            Self::Object(attributes) => {
                let attributes =
                    attributes.iter().map(|(name, r#type)| (name.clone(), r#type.to_json()));
                json!(["object", Json::Object(attributes.collect())])
            }
        }
    }

    pub fn parse(text: &[u8]) -> Result<Self, TypeError> {
        let json = serde_json::from_slice(text).map_err(|_| TypeError)?;
        Self::from_json(&json, DEPTH_MAX)
    }

    fn from_json(json: &Json, depth: usize) -> Result<Self, TypeError> {
        let depth = depth.checked_sub(1).ok_or(TypeError)?;
        let one = |json: &Json| Self::from_json(json, depth);
        match json {
            Json::String(name) => match name.as_str() {
                "bool" => Ok(Self::Bool),
                "number" => Ok(Self::Number),
                "string" => Ok(Self::String),
                "dynamic" => Ok(Self::Dynamic),
                _ => Err(TypeError),
            },
            Json::Array(parts) => match (parts.first().and_then(Json::as_str), parts.get(1)) {
                (Some("list"), Some(item)) => Ok(Self::list(one(item)?)),
                (Some("set"), Some(item)) => Ok(Self::set(one(item)?)),
                (Some("map"), Some(value)) => Ok(Self::map(one(value)?)),
                (Some("tuple"), Some(Json::Array(items))) => {
                    items.iter().map(one).collect::<Result<_, _>>().map(Self::Tuple)
                }
                // A third part names the attributes that may be left out.
                (Some("object"), Some(Json::Object(attributes))) => {
                    let each = attributes.iter();
                    let each = each.map(|(name, json)| Ok((name.clone(), one(json)?)));
                    each.collect::<Result<_, _>>().map(Self::Object)
                }
                (_, _) => Err(TypeError),
            },
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => Err(TypeError),
        }
    }
}
