//! Strategic merge patches, by which clients change kinds that they have built in: maps are merged, and some lists are,
//! by their values or by a field of their items. Directives say what else is meant:
//!
//! ```text
//!   "$patch": "replace" | "delete" | "merge"      of the map that it stands in, or as an item of its list
//!   "$retainKeys": ["a", "b"]                     the map keeps these fields and no others
//!   "$deleteFromPrimitiveList/FIELD": ["x"]       the list loses these values
//!   "$setElementOrder/FIELD": ["x", "y"]          the list has these in this order, before what else it has
//! ```
use serde_json::{Map, Value};

/// How a list is merged.
#[derive(Clone, Copy)]
enum List {
    /// Each value is in it once.
    Values,
    /// Items are the same if this field is.
    By(&'static str),
    /// The new one replaces the old one.
    Whole,
}

/// The lists of a namespace that are merged.
fn list_at(path: &str) -> List {
    match path {
        "/metadata/finalizers" => List::Values,
        "/metadata/ownerReferences" => List::By("uid"),
        "/status/conditions" => List::By("type"),
        _ => List::Whole,
    }
}

/// The document after the patch, or why the patch says nothing that can be done.
pub fn merged(document: Value, patch: &Map<String, Value>) -> Result<Value, String> {
    Ok(map(document, patch, "")?.unwrap_or(Value::Object(Map::new())))
}

/// `None` if the map is to go.
fn map(old: Value, patch: &Map<String, Value>, path: &str) -> Result<Option<Value>, String> {
    let mut fields = match (directive(patch, path)?, old) {
        (Directive::Delete, _) => return Ok(None),
        (Directive::Merge, Value::Object(fields)) => fields,
        (Directive::Replace, _) | (Directive::Merge, _) => Map::new(),
    };
    for (key, new) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        let path = format!("{path}/{key}");
        let old = fields.remove(key);
        let next = match new {
            Value::Null => None,
            Value::Object(new) => map(old.unwrap_or_default(), new, &path)?,
            Value::Array(new) => Some(Value::Array(list(items(old), new, &path)?)),
            new => Some(new.clone()),
        };
        fields.extend(next.map(|next| (key.clone(), next)));
    }
    for (key, said) in patch.iter().filter(|(key, _)| key.starts_with('$')) {
        let said = || said.as_array().ok_or_else(|| format!("{key} in {path:?} must be a list"));
        match key.split_once('/') {
            Some(("$deleteFromPrimitiveList", field)) => {
                let gone = said()?;
                let Some(Value::Array(items)) = fields.get_mut(field) else { continue };
                items.retain(|item| !gone.contains(item));
            }
            Some(("$setElementOrder", field)) => {
                let order = said()?;
                let kind = list_at(&format!("{path}/{field}"));
                if let Some(Value::Array(items)) = fields.get_mut(field) {
                    sort(items, order, kind);
                }
            }
            None if key == "$retainKeys" => {
                let kept = said()?;
                fields.retain(|field, _| kept.iter().any(|kept| kept == field));
            }
            None if key == "$patch" => {}
            Some(_) | None => return Err(format!("there is no directive {key:?}")),
        }
    }
    Ok(Some(Value::Object(fields)))
}

enum Directive {
    Merge,
    Replace,
    Delete,
}

fn directive(patch: &Map<String, Value>, path: &str) -> Result<Directive, String> {
    match patch.get("$patch").map(|said| said.as_str().unwrap_or_default()) {
        None | Some("merge") => Ok(Directive::Merge),
        Some("replace") => Ok(Directive::Replace),
        Some("delete") => Ok(Directive::Delete),
        Some(other) => Err(format!(
            "$patch in {path:?} is {other:?}; it can be \"merge\", \"replace\" or \"delete\""
        )),
    }
}

fn items(value: Option<Value>) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn list(old: Vec<Value>, new: &[Value], path: &str) -> Result<Vec<Value>, String> {
    let replaces = |item: &Value| item == &serde_json::json!({"$patch": "replace"});
    let kind = list_at(path);
    let mut all = match (kind, new.iter().any(replaces)) {
        (List::Whole, _) | (_, true) => Vec::new(),
        (List::Values | List::By(_), false) => old,
    };
    for item in new.iter().filter(|item| !replaces(item)) {
        match kind {
            List::Values if all.contains(item) => {}
            List::Values | List::Whole => all.push(item.clone()),
            List::By(key) => keyed(&mut all, item, key, path)?,
        }
    }
    Ok(all)
}

/// Merges an item of a list into the one with the same key, or adds it.
fn keyed(all: &mut Vec<Value>, item: &Value, key: &str, path: &str) -> Result<(), String> {
    let patch = item.as_object().ok_or_else(|| format!("an item of {path:?} must be a map"))?;
    let missing = || format!("an item of {path:?} does not say its {key}");
    let id = patch.get(key).filter(|id| !id.is_null()).ok_or_else(missing)?;
    let at = all.iter().position(|other| other.get(key) == Some(id));
    let old = at.map_or(Value::Null, |at| all[at].clone());
    match (at, map(old, patch, path)?) {
        (Some(at), Some(next)) => all[at] = next,
        (Some(at), None) => drop(all.remove(at)),
        (None, Some(next)) => all.push(next),
        (None, None) => {}
    }
    Ok(())
}

/// What the order names comes first, as it is named there.
fn sort(items: &mut [Value], order: &[Value], kind: List) {
    let place = |item: &Value| {
        let named = |named: &Value| match kind {
            List::By(key) => named.get(key).is_some() && named.get(key) == item.get(key),
            List::Values | List::Whole => named == item,
        };
        order.iter().position(named).unwrap_or(order.len())
    };
    items.sort_by_key(place);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn after(document: Value, patch: Value) -> Result<Value, String> {
        merged(document, patch.as_object().expect("a map"))
    }

    fn namespace() -> Value {
        json!({
            "metadata": {
                "labels": {"a": "1", "b": "2"},
                "finalizers": ["x.dev/one", "x.dev/two"],
                "ownerReferences": [{"uid": "1", "name": "one"}, {"uid": "2", "name": "two"}],
            },
            "spec": {"finalizers": ["kubernetes"]},
        })
    }

    fn check(patch: Value, pointer: &str, expect: Value) {
        let next = after(namespace(), patch.clone()).expect("it fits");
        assert_eq!(next.pointer(pointer), Some(&expect), "{patch}");
    }

    #[test]
    fn maps_and_some_lists_are_merged() {
        let labels = json!({"metadata": {"labels": {"b": null, "c": "3"}}});
        check(labels, "/metadata/labels", json!({"a": "1", "c": "3"}));
        let finalizers = json!({"metadata": {"finalizers": ["x.dev/two", "x.dev/three"]}});
        let all = json!(["x.dev/one", "x.dev/two", "x.dev/three"]);
        check(finalizers, "/metadata/finalizers", all);
        let owners = json!({"metadata": {"ownerReferences": [{"uid": "2", "controller": true}]}});
        let all =
            json!([{"uid": "1", "name": "one"}, {"uid": "2", "name": "two", "controller": true}]);
        check(owners, "/metadata/ownerReferences", all);
        check(json!({"spec": {"finalizers": ["other"]}}), "/spec/finalizers", json!(["other"]));
    }

    #[test]
    fn directives_say_what_else_is_meant() {
        let gone = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.dev/one"]}});
        check(gone, "/metadata/finalizers", json!(["x.dev/two"]));
        let owner = json!({"metadata": {"ownerReferences": [{"uid": "1", "$patch": "delete"}]}});
        check(owner, "/metadata/ownerReferences", json!([{"uid": "2", "name": "two"}]));
        let only = json!({"metadata": {"ownerReferences": [{"$patch": "replace"}, {"uid": "3"}]}});
        check(only, "/metadata/ownerReferences", json!([{"uid": "3"}]));
        let labels = json!({"metadata": {"labels": {"$patch": "replace", "z": "9"}}});
        check(labels, "/metadata/labels", json!({"z": "9"}));
        let kept = json!({"metadata": {"labels": {"$retainKeys": ["a"]}}});
        check(kept, "/metadata/labels", json!({"a": "1"}));
        let order = json!({"metadata": {
            "$setElementOrder/finalizers": ["x.dev/new", "x.dev/two"], "finalizers": ["x.dev/new"],
        }});
        check(order, "/metadata/finalizers", json!(["x.dev/new", "x.dev/two", "x.dev/one"]));
        let none = json!({"metadata": {"labels": {"$patch": "delete"}}});
        assert_eq!(after(namespace(), none).unwrap().pointer("/metadata/labels"), None);
    }

    #[test]
    fn what_says_nothing_is_refused() {
        let cases = [
            (json!({"metadata": {"ownerReferences": [{"name": "x"}]}}), "does not say its uid"),
            (json!({"metadata": {"ownerReferences": ["x"]}}), "must be a map"),
            (json!({"metadata": {"$patch": "remove"}}), "it can be"),
            (json!({"metadata": {"$retainKeys": "a"}}), "must be a list"),
            (json!({"$other": 1}), "there is no directive"),
        ];
        for (patch, expect) in cases {
            let error = after(namespace(), patch.clone()).expect_err("refused");
            assert!(error.contains(expect), "{patch}: {error}");
        }
    }
}
