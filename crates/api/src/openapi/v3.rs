//! OpenAPI 3.0.
use serde_json::{Map, Value, json};

use super::meta;
use super::operation::{Content, OBJECT_TYPES, Operation, PathItem, paths};
use super::resource::ApiResource;
use super::schema;
use super::{Dialect, core};
use crate::scheme::Scheme;

/// The document of the resources of one group and version.
pub(super) fn document(scheme: &Scheme, resources: &[&ApiResource]) -> Value {
    let mut all_paths = Map::new();
    let mut schemas: Map<String, Value> = meta::schemas(Dialect::V3).into_iter().collect();
    for resource in resources {
        for item in paths(resource) {
            let written = path_item(resource, &item);
            all_paths.insert(item.path, written);
        }
        schemas.insert(resource.list_schema.clone(), meta::list(resource, Dialect::V3));
        match &resource.definition {
            Some(kind) => schemas.extend(schema::of_kind(kind, Dialect::V3)),
            None => schemas.extend(core::schemas(scheme, Dialect::V3)),
        }
    }
    let version = resources.first().map(|resource| resource.api_version()).unwrap_or_default();
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Orrery", "version": version },
        "paths": all_paths,
        "components": { "schemas": schemas },
    })
}

fn path_item(resource: &ApiResource, item: &PathItem) -> Value {
    let mut written = Map::new();
    if !item.variables.is_empty() {
        let variables = item.variables.iter().map(|name| {
            let schema = json!({ "type": "string" });
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        });
        written.insert("parameters".to_owned(), variables.collect());
    }
    for one in &item.operations {
        written.insert(one.method.to_owned(), operation(resource, one));
    }
    Value::Object(written)
}

fn operation(resource: &ApiResource, operation: &Operation) -> Value {
    let parameters = operation.parameters.iter().map(|parameter| {
        let mut schema = json!({ "type": parameter.r#type });
        if parameter.r#type == "integer" {
            schema["minimum"] = json!(0);
            // What a client can send fits what this server counts with.
            schema["maximum"] = json!(i64::MAX);
        }
        if !parameter.values.is_empty() {
            schema["enum"] = json!(parameter.values);
        }
        if let Some(format) = parameter.format {
            schema["format"] = json!(format);
        }
        json!({
            "name": parameter.name, "in": "query", "description": parameter.description,
            "schema": schema,
        })
    });
    let mut written = json!({
        "tags": [resource.api_version()],
        "description": operation.description,
        "operationId": operation.id,
        "parameters": parameters.collect::<Vec<_>>(),
    });
    if !operation.body.is_empty() {
        let required = operation.method != "delete";
        let content = contents(&operation.body);
        written["requestBody"] = json!({ "content": content, "required": required });
    }
    let mut answers = Map::new();
    for (code, description, content) in &operation.answers {
        let content = contents(std::slice::from_ref(content));
        let answer = json!({ "description": description, "content": content });
        answers.insert((*code).to_owned(), answer);
    }
    let refused = content(&Dialect::V3.reference(meta::STATUS), &OBJECT_TYPES[..1]);
    answers.insert("default".to_owned(), json!({ "description": "Refused", "content": refused }));
    written["responses"] = Value::Object(answers);
    written["x-kubernetes-action"] = json!(operation.action);
    written["x-kubernetes-group-version-kind"] = operation.group_version_kind(resource);
    written
}

fn contents(all: &[Content]) -> Value {
    let each = all.iter().flat_map(|one| {
        let schema = match &one.or {
            None => Dialect::V3.reference(&one.schema),
            Some(or) => {
                json!({ "anyOf": [Dialect::V3.reference(&one.schema), Dialect::V3.reference(or)] })
            }
        };
        match content(&schema, one.types) {
            Value::Object(fields) => fields,
            _ => Map::new(),
        }
    });
    Value::Object(each.collect())
}

fn content(schema: &Value, types: &[&str]) -> Value {
    let each = types.iter().map(|media| ((*media).to_owned(), json!({ "schema": schema })));
    Value::Object(each.collect())
}
