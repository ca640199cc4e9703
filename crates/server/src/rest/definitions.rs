//! The kinds of the server as definitions, as tools read them that look there for what is no kind of Kubernetes itself.
//!
//! They are made from the kinds, which never change while a server runs: there is nothing to create, and nothing to
//! watch. They are not in discovery, where whatever has a list has the rest, too.
use super::Rest;
use super::accept;
use super::failure::Failure;
use super::query::Query;
use super::render;
use super::resource::{Face, Resource};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use orrery_api::LabelSelector;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Where they are.
pub const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub const ONE: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}";

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
/// An object of a kind that has this label may stand for a set of objects that kubectl applies and prunes together.
const PARENT: &str = "applyset.kubernetes.io/is-parent-type";

pub async fn list(
    State(rest): State<Arc<Rest>>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let query = Query::parse(&axum::http::Method::GET, uri.query().unwrap_or_default())?;
    if query.watch {
        let message =
            "the kinds of a server do not change while it runs: there is nothing to watch";
        let mut refused = Failure::method_not_allowed(message).into_response();
        refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Ok(refused);
    }
    let labels = LabelSelector::parse(&query.labels);
    let labels = labels.map_err(|error| Failure::bad_request(error.to_string()))?;
    let name = named(&query.fields)?;
    let fits = |definition: &Value| {
        let label = |key: &str| definition["metadata"]["labels"].get(key).and_then(Value::as_str);
        labels.matches_labels(label)
            && name.is_none_or(|name| definition["metadata"]["name"] == name)
    };
    let items: Vec<Value> = definitions(&rest).into_iter().filter(fits).collect();
    let list = json!({
        "kind": "CustomResourceDefinitionList",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": { "resourceVersion": "0" },
        "items": items,
    });
    answer(&headers, &list)
}

pub async fn get(
    State(rest): State<Arc<Rest>>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let mut all = definitions(&rest).into_iter();
    let found = all.find(|definition| definition["metadata"]["name"] == *name);
    let found = found.ok_or_else(|| {
        let message = format!("{PLURAL}.{GROUP} {name:?} not found");
        Failure::new(StatusCode::NOT_FOUND, "NotFound", message).about(GROUP, PLURAL, &name)
    })?;
    answer(&headers, &found)
}

fn answer(headers: &HeaderMap, value: &Value) -> Result<Response, Failure> {
    Ok(render::answer(StatusCode::OK, accept::plain_form(headers)?, value, &[]))
}

/// The one field that is selected by.
fn named(fields: &str) -> Result<Option<&str>, Failure> {
    match fields.split_once('=') {
        None if fields.is_empty() => Ok(None),
        Some(("metadata.name", name)) => Ok(Some(name.strip_prefix('=').unwrap_or(name))),
        None | Some(_) => {
            Err(Failure::bad_request(format!("{fields:?} is not metadata.name=NAME")))
        }
    }
}

fn definitions(rest: &Rest) -> Vec<Value> {
    let own = |resource: &&Resource| resource.face == Face::Own && !resource.is_built_in();
    let mut found: Vec<(String, Vec<&Resource>)> = Vec::new();
    for resource in rest.catalog.resources().filter(own) {
        let name = resource.qualified_plural();
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, versions)) => versions.push(resource),
            None => found.push((name, vec![resource])),
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.iter().filter_map(|(name, versions)| definition(name, versions)).collect()
}

fn definition(name: &str, versions: &[&Resource]) -> Option<Value> {
    let kind = versions.first()?;
    let mut labels = Map::new();
    if kind.writable() {
        labels.insert(PARENT.to_owned(), json!("true"));
    }
    let names = json!({
        "plural": kind.plural(),
        "singular": kind.singular(),
        "shortNames": kind.short_names(),
        "kind": kind.kind_name(),
        "listKind": kind.list_kind(),
        "categories": kind.kind.categories(),
    });
    let is = |what: &str, why: &str| json!({ "type": what, "status": "True", "reason": why, "message": "it is one of the server's own" });
    Some(json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "group": kind.group(),
            "names": names,
            "scope": if kind.namespaced() { "Namespaced" } else { "Cluster" },
            "versions": versions.iter().map(|one| version(one)).collect::<Vec<_>>(),
        },
        "status": {
            "conditions": [is("NamesAccepted", "NoConflicts"), is("Established", "InitialNamesAccepted")],
            "acceptedNames": names,
            "storedVersions": versions.iter().filter(|one| is_stored(one)).map(|one| one.version()).collect::<Vec<_>>(),
        },
    }))
}

/// A version with its parts. What fields it has stands in OpenAPI.
fn version(resource: &Resource) -> Value {
    let mut parts = Map::new();
    if resource.has_status() {
        parts.insert("status".to_owned(), json!({}));
    }
    if let Some(scale) = resource.scale() {
        let paths = json!({
            "specReplicasPath": format!(".{}", scale.spec_path),
            "statusReplicasPath": format!(".{}", scale.status_path),
        });
        parts.insert("scale".to_owned(), paths);
    }
    json!({
        "name": resource.version(),
        "served": true,
        "storage": is_stored(resource),
        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
        "subresources": parts,
    })
}

/// Whether objects are kept in this version.
fn is_stored(resource: &Resource) -> bool {
    resource.accessor.kind().full_name() == resource.kind.full_name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_selected_by_name() {
        assert_eq!(named("").ok(), Some(None));
        assert_eq!(named("metadata.name=a.b").ok(), Some(Some("a.b")));
        assert_eq!(named("metadata.name==a.b").ok(), Some(Some("a.b")));
        for wrong in ["nonsense", "spec.group=a", "metadata.name!=a"] {
            assert_eq!(named(wrong).expect_err("refused").code.as_u16(), 400, "{wrong}");
        }
    }
}
