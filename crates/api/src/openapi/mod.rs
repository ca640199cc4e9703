//! OpenAPI 3 and OpenAPI 2, made from the same definitions as everything else.
//!
//! ```text
//!   Kind ──> ApiResource ──> operations ──┬──> v3: one document for each group and version
//!     └────> schemas (messages) ──────────┴──> v2: one document for all
//! ```
//! The operations are those of the REST dialect. Two kinds also stand in the core group, where the
//! tools of this field look for them: projects as namespaces, and events.
mod core;
mod meta;
mod operation;
pub mod protobuf;
mod resource;
mod schema;
mod v2;
mod v3;

use serde_json::Value;

pub use v2::swagger;

use crate::scheme::Scheme;
use resource::ApiResource;

/// The OpenAPI 3 document of one group and version.
#[derive(Clone, Debug)]
pub struct Document {
    /// Its place in the index: `apis/apps.orrery.dev/v1`, or `api/v1` for the core group.
    pub path: String,
    pub value: Value,
}

/// All OpenAPI 3 documents of a scheme, in the order of their paths.
pub fn documents(scheme: &Scheme) -> Vec<Document> {
    let resources = ApiResource::all(scheme);
    let mut paths: Vec<String> = resources.iter().map(ApiResource::base).collect();
    paths.sort();
    paths.dedup();
    let document = |path: String| {
        let own: Vec<&ApiResource> = resources.iter().filter(|r| r.base() == path).collect();
        let value = v3::document(scheme, &own);
        Document { path, value }
    };
    paths.into_iter().map(document).collect()
}

/// The two spellings of a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// A reference to a schema.
    fn reference(self, name: &str) -> Value {
        let place = match self {
            Self::V2 => "definitions",
            Self::V3 => "components/schemas",
        };
        serde_json::json!({ "$ref": format!("#/{place}/{name}") })
    }
}

#[cfg(test)]
mod tests;
