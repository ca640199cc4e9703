//! What there is: groups, versions and resources, in one document or in several.
use super::accept::DiscoveryForm;
use super::accept::Form;
use super::catalog::{Catalog, GroupVersion};
use super::failure::Failure;
use super::render;
use super::resource::{Resource, Subresource};
use super::review::{REVIEWS, Review};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The versions of aggregated discovery that we write; they differ in their name only.
const AGGREGATED: [&str; 2] = ["v2", "v2beta1"];

/// All discovery documents; they never change while a server runs.
pub struct Discovery {
    aggregated: Vec<Aggregated>,
    core_versions: Value,
    groups: Value,
    resource_lists: Vec<(String, Value)>,
}

/// One aggregated document, ready to be sent.
struct Aggregated {
    core: bool,
    version: &'static str,
    text: String,
    etag: String,
}

impl Discovery {
    pub fn new(catalog: &Catalog) -> Self {
        let all = catalog.group_versions();
        let (core, named): (Vec<_>, Vec<_>) = all.iter().partition(|found| found.group.is_empty());
        let documents = [(true, core_group(&core)), (false, named_groups(&named))];
        let aggregated = documents.iter().flat_map(|(core, items)| {
            AGGREGATED.map(|version| Aggregated::new(*core, version, items))
        });
        let mut resource_lists: Vec<(String, Value)> =
            all.iter().map(|found| (found.name(), resource_list(found))).collect();
        resource_lists.extend(review_groups().map(|name| {
            let reviews = REVIEWS.iter().filter(|review| review.group_version() == name);
            let resources = reviews.map(legacy_review).collect();
            (name.to_owned(), legacy_list(name, resources))
        }));
        Self {
            aggregated: aggregated.collect(),
            core_versions: core_versions(&core),
            groups: json!({
                "kind": "APIGroupList", "apiVersion": "v1", "groups": legacy_groups(&named),
            }),
            resource_lists,
        }
    }

    /// `/api` and `/apis`.
    pub fn root(&self, core: bool, form: DiscoveryForm, headers: &HeaderMap) -> Response {
        match form {
            DiscoveryForm::Plain => {
                let plain = if core { &self.core_versions } else { &self.groups };
                let mut response = render::answer(StatusCode::OK, Form::Json, plain, &[]);
                vary(&mut response);
                response
            }
            DiscoveryForm::Aggregated(version) => {
                let found = self.aggregated.iter();
                let mut found = found.filter(|doc| doc.core == core && doc.version == version);
                found.next().map_or_else(
                    || Response::new(Body::empty()),
                    |document| document.answer(headers),
                )
            }
        }
    }

    /// `/apis/GROUP`.
    pub fn group(&self, name: &str) -> Result<Response, Failure> {
        let groups = self.groups["groups"].as_array().into_iter().flatten();
        let mut found = groups.filter(|group| group["name"] == name);
        let mut group = found.next().cloned().ok_or_else(Failure::unknown_path)?;
        group["kind"] = json!("APIGroup");
        group["apiVersion"] = json!("v1");
        Ok(render::answer(StatusCode::OK, Form::Json, &group, &[]))
    }

    /// `/apis/GROUP/VERSION` and `/api/v1`.
    pub fn resources(&self, group: &str, version: &str) -> Result<Response, Failure> {
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        let found = self.resource_lists.iter().find(|(known, _)| *known == name);
        let (_, list) = found.ok_or_else(Failure::unknown_path)?;
        Ok(render::answer(StatusCode::OK, Form::Json, list, &[]))
    }
}

impl Aggregated {
    fn new(core: bool, version: &'static str, items: &[Value]) -> Self {
        let text = json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": format!("apidiscovery.k8s.io/{version}"),
            "metadata": {},
            "items": items,
        })
        .to_string();
        let etag = format!("\"{}\"", hash(text.as_bytes()));
        Self { core, version, text, etag }
    }

    /// A client that has this document already is told so, without a content type: its cache would
    /// take that for the type of what it has.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let unchanged = is_known(headers, &self.etag);
        let mut response = match unchanged {
            true => Response::new(Body::empty()),
            false => Response::new(Body::from(self.text.clone())),
        };
        if unchanged {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            let kind = format!(
                "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList",
                self.version
            );
            set(&mut response, header::CONTENT_TYPE, &kind);
        }
        set(&mut response, header::ETAG, &self.etag);
        set(&mut response, header::CACHE_CONTROL, "public");
        vary(&mut response);
        response
    }
}

/// Whether a client has what this tag stands for.
pub fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    known.is_some_and(|known| {
        known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag)
    })
}

fn vary(response: &mut Response) {
    set(response, header::VARY, "Accept");
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

/// SHA-256 as capital hexadecimal digits.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn core_versions(core: &[&GroupVersion<'_>]) -> Value {
    let versions: Vec<&str> = core.iter().map(|found| found.version).collect();
    json!({ "kind": "APIVersions", "versions": versions, "serverAddressByClientCIDRs": [] })
}

fn core_group(core: &[&GroupVersion<'_>]) -> Vec<Value> {
    let versions: Vec<Value> = core.iter().map(|found| aggregated_version(found)).collect();
    vec![json!({ "metadata": {}, "versions": versions })]
}

fn named_groups(named: &[&GroupVersion<'_>]) -> Vec<Value> {
    let mut groups: Vec<Value> = group_names(named)
        .into_iter()
        .map(|name| {
            let versions = named.iter().filter(|found| found.group == name);
            let versions: Vec<Value> = versions.map(|found| aggregated_version(found)).collect();
            json!({ "metadata": { "name": name }, "versions": versions })
        })
        .collect();
    groups.extend(review_groups().map(aggregated_reviews));
    groups
}

fn group_names<'a>(named: &[&GroupVersion<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for found in named {
        if !names.contains(&found.group) {
            names.push(found.group);
        }
    }
    names
}

fn aggregated_version(found: &GroupVersion<'_>) -> Value {
    let resources: Vec<Value> =
        found.resources.iter().map(|resource| aggregated_resource(resource)).collect();
    json!({ "version": found.version, "freshness": "Current", "resources": resources })
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind = json!({
        "group": resource.group(), "version": resource.version(), "kind": resource.kind_name(),
    });
    let mut found = json!({
        "resource": resource.plural(),
        "responseKind": kind,
        "scope": if resource.namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular(),
        "verbs": resource.verbs(),
    });
    add_names(&mut found, resource);
    let parts: Vec<Value> = resource.subresources().iter().map(aggregated_part).collect();
    if !parts.is_empty() {
        found["subresources"] = json!(parts);
    }
    found
}

fn aggregated_part(part: &Subresource<'_>) -> Value {
    let (group, version, kind) = part.kind;
    let kind = json!({ "group": group, "version": version, "kind": kind });
    json!({ "subresource": part.name, "responseKind": kind, "verbs": part.verbs })
}

fn add_names(found: &mut Value, resource: &Resource) {
    if !resource.short_names().is_empty() {
        found["shortNames"] = json!(resource.short_names());
    }
    if !resource.kind.categories().is_empty() {
        found["categories"] = json!(resource.kind.categories());
    }
}

fn aggregated_reviews(name: &str) -> Value {
    let (group, version) = name.split_once('/').unwrap_or((name, "v1"));
    let reviews = REVIEWS.iter().filter(|review| review.group_version() == name);
    let resources: Vec<Value> = reviews
        .map(|review| {
            json!({
                "resource": review.plural(),
                "responseKind": { "group": group, "version": version, "kind": review.kind() },
                "scope": if review.namespaced() { "Namespaced" } else { "Cluster" },
                "singularResource": review.kind().to_lowercase(),
                "verbs": ["create"],
            })
        })
        .collect();
    let versions = json!([{ "version": version, "freshness": "Current", "resources": resources }]);
    json!({ "metadata": { "name": group }, "versions": versions })
}

fn review_groups() -> impl Iterator<Item = &'static str> {
    let mut names: Vec<&'static str> = REVIEWS.iter().map(Review::group_version).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter()
}

fn legacy_groups(named: &[&GroupVersion<'_>]) -> Vec<Value> {
    let own = group_names(named).into_iter().map(|group| {
        let versions = named.iter().filter(|found| found.group == group);
        (group, versions.map(|found| found.version).collect::<Vec<_>>())
    });
    let reviews = review_groups().filter_map(|name| name.split_once('/'));
    let reviews = reviews.map(|(group, version)| (group, vec![version]));
    let describe = |(group, versions): (&str, Vec<&str>)| {
        let version = |version: &&str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
        let versions: Vec<Value> = versions.iter().map(version).collect();
        json!({ "name": group, "preferredVersion": versions.first(), "versions": versions })
    };
    own.chain(reviews).map(describe).collect()
}

fn resource_list(found: &GroupVersion<'_>) -> Value {
    let resources = found.resources.iter().flat_map(|resource| legacy_resource(resource));
    legacy_list(&found.name(), resources.collect())
}

fn legacy_list(group_version: &str, resources: Vec<Value>) -> Value {
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    })
}

fn legacy_resource(resource: &Resource) -> Vec<Value> {
    let (kind, namespaced) = (resource.kind_name(), resource.namespaced());
    let mut main = json!({
        "name": resource.plural(), "singularName": resource.singular(), "namespaced": namespaced,
        "kind": kind, "verbs": resource.verbs(),
    });
    add_names(&mut main, resource);
    let parts = resource.subresources();
    let part = |part: &Subresource<'_>| {
        let (group, version, kind) = part.kind;
        let mut found = json!({
            "name": format!("{}/{}", resource.plural(), part.name), "singularName": "",
            "namespaced": namespaced, "kind": kind, "verbs": part.verbs,
        });
        // Where it is not the one of the list that this stands in.
        if group != resource.group() {
            found["group"] = json!(group);
            found["version"] = json!(version);
        }
        found
    };
    std::iter::once(main).chain(parts.iter().map(part)).collect()
}

fn legacy_review(review: &Review) -> Value {
    json!({
        "name": review.plural(), "singularName": review.kind().to_lowercase(),
        "namespaced": review.namespaced(), "kind": review.kind(), "verbs": ["create"],
    })
}
