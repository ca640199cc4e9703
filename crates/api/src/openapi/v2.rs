//! OpenAPI 2.0, once called Swagger.
use serde_json::{Map, Value, json};

use super::meta;
use super::operation::{OBJECT_TYPES, Operation, PathItem, paths};
use super::resource::ApiResource;
use super::schema;
use super::{Dialect, core};
use crate::scheme::Scheme;

/// One document for everything that a scheme serves.
pub fn swagger(scheme: &Scheme) -> Value {
    let mut all_paths = Map::new();
    let mut definitions: Map<String, Value> = meta::schemas().into_iter().collect();
    definitions.extend(core::schemas(scheme, Dialect::V2));
    for resource in ApiResource::all(scheme) {
        for item in paths(&resource) {
            let written = path_item(&resource, &item);
            all_paths.insert(item.path, written);
        }
        definitions.insert(resource.list_schema.clone(), meta::list(&resource, Dialect::V2));
        if let Some(kind) = &resource.definition {
            definitions.extend(schema::of_kind(kind, Dialect::V2));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Orrery", "version": "v1" },
        "paths": all_paths,
        "definitions": definitions,
    })
}

fn path_item(resource: &ApiResource, item: &PathItem) -> Value {
    let mut written = Map::new();
    if !item.variables.is_empty() {
        let variables = item.variables.iter();
        let variables = variables
            .map(|name| json!({ "name": name, "in": "path", "required": true, "type": "string" }));
        written.insert("parameters".to_owned(), variables.collect());
    }
    for one in &item.operations {
        written.insert(one.method.to_owned(), operation(resource, one));
    }
    Value::Object(written)
}

fn operation(resource: &ApiResource, operation: &Operation) -> Value {
    let query = operation.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name, "in": "query", "description": parameter.description,
            "type": parameter.r#type,
        })
    });
    let body = operation.body.as_ref().map(|(schema, _)| {
        let schema = Dialect::V2.reference(schema);
        let required = operation.method != "delete";
        json!({ "name": "body", "in": "body", "required": required, "schema": schema })
    });
    let parameters: Vec<Value> = body.into_iter().chain(query).collect();
    let mut written = json!({
        "tags": [resource.api_version()],
        "description": operation.description,
        "operationId": operation.id,
        "produces": OBJECT_TYPES,
        "parameters": parameters,
    });
    if let Some((_, types)) = &operation.body {
        written["consumes"] = json!(types);
    }
    let mut answers = Map::new();
    for (code, description, schema) in &operation.answers {
        let schema = Dialect::V2.reference(schema);
        let answer = json!({ "description": description, "schema": schema });
        answers.insert((*code).to_owned(), answer);
    }
    let refused = Dialect::V2.reference(meta::STATUS);
    answers.insert("default".to_owned(), json!({ "description": "Refused", "schema": refused }));
    written["responses"] = Value::Object(answers);
    written["x-kubernetes-action"] = json!(operation.action);
    written["x-kubernetes-group-version-kind"] = resource.group_version_kind();
    written
}
