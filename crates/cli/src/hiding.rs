//! Secrets are shown to who asks for them as YAML or JSON, and hidden from who looks at them in passing.
use crate::scheme;
use base64::Engine as _;
use orrery_api::{Kind, Scheme};
use orrery_proto::hub::v1::{DiscoverResponse, KindInfo};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where `kubectl apply` repeats the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Knows what is secret.
pub struct Hiding {
    scheme: Scheme,
}

impl Hiding {
    pub fn new(known: &DiscoverResponse) -> anyhow::Result<Self> {
        Ok(Self { scheme: scheme::local(Some(known))? })
    }

    fn definition(&self, kind: &KindInfo) -> Option<Arc<Kind>> {
        scheme::definition(&self.scheme, kind).filter(|kind| kind.has_secrets())
    }

    /// Shows how long each secret is instead of what it is.
    pub fn hide(&self, kind: &KindInfo, object: &mut Value) {
        let Some(kind) = self.definition(kind) else { return };
        hide_copy(object);
        kind.each_secret(object, &mut |_, value| *value = json!(length(value)));
    }

    /// Shows which secrets differ, and not how.
    pub fn hide_both(&self, kind: &KindInfo, before: &mut Value, after: &mut Value) {
        let Some(kind) = self.definition(kind) else { return };
        let mut old = BTreeMap::new();
        hide_copy(before);
        hide_copy(after);
        kind.each_secret(before, &mut |path, value| _ = old.insert(path.to_owned(), value.clone()));
        let mut same = Vec::new();
        kind.each_secret(after, &mut |path, value| {
            let unchanged = old.get(path) == Some(value);
            if unchanged {
                same.push(path.to_owned());
            }
            *value = json!(if unchanged { "***" } else { "*** (after)" });
        });
        kind.each_secret(before, &mut |path, value| {
            let unchanged = same.iter().any(|same| same == path);
            *value = json!(if unchanged { "***" } else { "*** (before)" });
        });
    }
}

fn hide_copy(object: &mut Value) {
    if let Some(copy) =
        object.pointer_mut("/metadata/annotations").and_then(|a| a.get_mut(LAST_APPLIED))
    {
        *copy = json!("***");
    }
}

fn length(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    format!("{} bytes", bytes.map_or(text.len(), |bytes| bytes.len()))
}
