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
    let mut definitions: Map<String, Value> = meta::schemas(Dialect::V2).into_iter().collect();
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
        let mut written = json!({
            "name": parameter.name, "in": "query", "description": parameter.description,
            "type": parameter.r#type,
        });
        if !parameter.values.is_empty() {
            written["enum"] = json!(parameter.values);
        }
        if let Some(format) = parameter.format {
            written["format"] = json!(format);
        }
        written
    });
    let body = operation.body.first().map(|content| {
        let schema = Dialect::V2.reference(&content.schema);
        let required = operation.method != "delete";
        json!({ "name": "body", "in": "body", "required": required, "schema": schema })
    });
    let parameters: Vec<Value> = body.into_iter().chain(query).collect();
    let mut written = json!({
        "tags": [resource.api_version()],
        "description": operation.description,
        "operationId": operation.id,
        "produces": operation.answers.first().map_or(OBJECT_TYPES, |(_, _, good)| good.types),
        "parameters": parameters,
    });
    if !operation.body.is_empty() {
        let types = operation.body.iter().flat_map(|content| content.types);
        written["consumes"] = json!(types.collect::<Vec<_>>());
    }
    let mut answers = Map::new();
    for (code, description, content) in &operation.answers {
        let schema = Dialect::V2.reference(&content.schema);
        let answer = json!({ "description": description, "schema": schema });
        answers.insert((*code).to_owned(), answer);
    }
    let refused = Dialect::V2.reference(meta::STATUS);
    answers.insert("default".to_owned(), json!({ "description": "Refused", "schema": refused }));
    written["responses"] = Value::Object(answers);
    written["x-kubernetes-action"] = json!(operation.action);
    written["x-kubernetes-group-version-kind"] = operation.group_version_kind(resource);
    written
}
