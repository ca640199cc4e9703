//! Two changes of one thing: pure.
use serde_json::{Map, Value};

/// What `edited` changed of `base`, done to `live`.
pub fn rebase(base: &Value, edited: &Value, live: &Value) -> Value {
    if edited == base {
        return live.clone();
    }
    match (base, edited, live) {
        (Value::Object(base), Value::Object(edited), Value::Object(live)) => {
            let mut next = Map::new();
            for key in keys(live, edited) {
                let wanted = match (base.get(key), edited.get(key), live.get(key)) {
                    (Some(b), Some(e), Some(l)) => Some(rebase(b, e, l)),
                    // Not touched by the person.
                    (None, None, live) => live.cloned(),
                    (Some(b), Some(e), None) if b == e => None,
                    // Removed, added, or changed in a place that is gone now.
                    (_, edited, _) => edited.cloned(),
                };
                if let Some(wanted) = wanted {
                    next.insert(key.to_owned(), wanted);
                }
            }
            Value::Object(next)
        }
        (_, edited, _) => edited.clone(),
    }
}

/// Paths that both sides changed, to different values. What only the server writes is left out.
pub fn overlap(base: &Value, edited: &Value, live: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(Some(base), Some(edited), Some(live), String::new(), &mut found);
    found.retain(|path| !SERVER_OWNED.contains(&path.as_str()));
    found
}

const SERVER_OWNED: [&str; 4] =
    ["metadata.resourceVersion", "metadata.generation", "metadata.managedFields", "status"];

fn collect(
    base: Option<&Value>,
    edited: Option<&Value>,
    live: Option<&Value>,
    path: String,
    found: &mut Vec<String>,
) {
    if edited == base || live == base || edited == live {
        return;
    }
    match (edited, live) {
        (Some(Value::Object(edited)), Some(Value::Object(live))) => {
            for key in keys(live, edited) {
                let base = base.and_then(|base| base.get(key));
                let path = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                collect(base, edited.get(key), live.get(key), path, found);
            }
        }
        (_, _) => found.push(path),
    }
}

/// The keys of both, those of the first in their order.
fn keys<'a>(
    first: &'a Map<String, Value>,
    second: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a str> {
    let more = second.keys().filter(|key| !first.contains_key(*key));
    first.keys().chain(more).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(base: Value, edited: Value, live: Value, next: Value, both: &[&str]) {
        assert_eq!(rebase(&base, &edited, &live), next);
        assert_eq!(overlap(&base, &edited, &live), both);
    }

    #[test]
    fn changes_of_two_sides_meet() {
        let base = || json!({"a": 1, "b": {"c": 2, "d": 3}});
        check(base(), base(), json!({"a": 9}), json!({"a": 9}), &[]);
        // Different places.
        check(
            base(),
            json!({"a": 5, "b": {"c": 2, "d": 3}}),
            json!({"a": 1, "b": {"c": 7, "d": 3}}),
            json!({"a": 5, "b": {"c": 7, "d": 3}}),
            &[],
        );
        // The same place: the person's wins, and it is told.
        check(
            base(),
            json!({"a": 1, "b": {"c": 5, "d": 3}}),
            json!({"a": 1, "b": {"c": 7, "d": 3}}),
            json!({"a": 1, "b": {"c": 5, "d": 3}}),
            &["b.c"],
        );
        // The same place and the same value is no conflict.
        check(
            base(),
            json!({"a": 5}),
            json!({"a": 5, "b": {"c": 2, "d": 3}}),
            json!({"a": 5}),
            &[],
        );
        // Removed here, added there.
        check(
            base(),
            json!({"b": {"c": 2, "d": 3}}),
            json!({"a": 1, "b": {"c": 2, "d": 3, "e": 4}}),
            json!({"b": {"c": 2, "d": 3, "e": 4}}),
            &[],
        );
        // Removed there, untouched here.
        check(
            base(),
            json!({"a": 5, "b": {"c": 2, "d": 3}}),
            json!({"a": 1}),
            json!({"a": 5}),
            &[],
        );
    }

    #[test]
    fn what_only_the_server_writes_is_no_conflict() {
        let version = |text: &str| json!({"metadata": {"resourceVersion": text}});
        assert!(overlap(&version("1"), &version("2"), &version("3")).is_empty());
    }
}
