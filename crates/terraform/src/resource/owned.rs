//! What the provider remembers of a resource beside its state.
use crate::schema::{Mode, Nesting, Object, Shape};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

/// Kept by the host beside the state, unread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Private {
    /// The attributes with a default that the configuration set when it was last applied. One of them that is taken
    /// out of the configuration gets its default again; all others may have been set by somebody else, and stay.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub owned: Json,
    /// The resource was imported: all of it is to be read once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

impl Private {
    /// What another version wrote, and cannot be read, is nothing.
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The attributes with a default that a configuration sets: a tree of names and keys.
pub fn owned(object: &Object, config: &Value) -> Json {
    let mut tree = Map::new();
    for attribute in &object.attributes {
        let value = config.get(&attribute.name);
        let found = match (&attribute.shape, &attribute.mode) {
            (_, _) if value.is_null() => None,
            (Shape::Plain(_, _), Mode::Defaulted(_)) => Some(Json::Bool(true)),
            (Shape::Nested(nesting, object), _) => below(nesting, object, value),
            (Shape::Plain(_, _), _) => None,
        };
        tree.extend(found.map(|found| (attribute.name.clone(), found)));
    }
    if tree.is_empty() { Json::Null } else { Json::Object(tree) }
}

fn below(nesting: &Nesting, object: &Object, value: &Value) -> Option<Json> {
    let tree = match nesting {
        Nesting::Single => owned(object, value),
        // A list without keys is one value, and the configuration's as a whole.
        Nesting::List => Json::Null,
        Nesting::Map => {
            keyed(value.as_map()?.iter().map(|(key, item)| (key.as_str(), owned(object, item))))
        }
        Nesting::Keyed { key } => {
            let items = value.as_list()?.iter();
            keyed(items.filter_map(|item| Some((item.get(key).as_str()?, owned(object, item)))))
        }
    };
    (!tree.is_null()).then_some(tree)
}

fn keyed<'a>(entries: impl Iterator<Item = (&'a str, Json)>) -> Json {
    let entries = entries.filter(|(_, tree)| !tree.is_null());
    let tree: Map<String, Json> = entries.map(|(key, tree)| (key.to_owned(), tree)).collect();
    if tree.is_empty() { Json::Null } else { Json::Object(tree) }
}
