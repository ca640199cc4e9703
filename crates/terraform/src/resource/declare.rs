//! From a configuration to what is asked of the server.
use crate::convert::plain_to_json;
use crate::schema::{Nesting, Object, ResourceType, Shape};
use crate::value::Value;
use serde_json::{Map, Value as Json, json};

/// The object that a configuration declares. What it leaves out is left out, so that it is nobody's of ours.
pub fn declare(of: &ResourceType, api_version: &str, project: &str, config: &Value) -> Json {
    let mut object = object_json(of.object(), config);
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(of.kind.kind());
    if !of.kind.cluster_scoped() {
        object["metadata"]["project"] = json!(project);
    }
    object
}

/// An object of attributes as JSON: what is null, unknown, or only the provider's is left out.
pub fn object_json(object: &Object, value: &Value) -> Json {
    let mut json = Map::new();
    for attribute in &object.attributes {
        let Some(name) = &attribute.json else { continue };
        let inner = value.get(&attribute.name);
        let written = match (&attribute.shape, inner) {
            (_, Value::Null | Value::Unknown(_)) => None,
            (Shape::Plain(_, form), value) => plain_to_json(value, *form),
            (Shape::Nested(nesting, object), value) => nested(nesting, object, value),
        };
        json.extend(written.map(|written| (name.clone(), written)));
    }
    Json::Object(json)
}

fn nested(nesting: &Nesting, object: &Object, value: &Value) -> Option<Json> {
    match nesting {
        Nesting::Single => Some(object_json(object, value)),
        Nesting::List | Nesting::Keyed { .. } => {
            let items = value.as_list()?.iter();
            Some(items.map(|item| object_json(object, item)).collect())
        }
        Nesting::Map => {
            let each = value.as_map()?.iter();
            let each = each.map(|(key, item)| (key.clone(), object_json(object, item)));
            Some(Json::Object(each.collect()))
        }
    }
}
