//! The order of values of any type.
use crate::output::jsonpath::Path;
use serde_json::Value;
use std::cmp::Ordering;

/// Whether any of them has a value there. A count of zero may be left out of all of them, so it is no error.
pub fn any_has<'a>(path: &Path, mut all: impl Iterator<Item = &'a Value>) -> bool {
    all.any(|object| !path.find(object).is_empty())
}

/// The order of two resources by the value at a path. What has none comes first.
pub fn compare(path: &Path, a: &Value, b: &Value) -> Ordering {
    let (a, b) = (path.find(a), path.find(b));
    match (a.first(), b.first()) {
        (Some(a), Some(b)) => order(a, b),
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

/// Numbers by size, texts by letter (times are texts that sort by time), types apart.
fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            (_, _) => a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (_, _) => rank(a).cmp(&rank(b)).then_with(|| a.to_string().cmp(&b.to_string())),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(a: Value, b: Value, expect: Ordering) {
        let path: Path = ".x".parse().unwrap();
        assert_eq!(compare(&path, &a, &b), expect, "{a} {b}");
        assert_eq!(compare(&path, &b, &a), expect.reverse(), "{b} {a}");
    }

    #[test]
    fn a_value_is_found_in_any_of_them() {
        let path: Path = ".x".parse().unwrap();
        let all = [json!({"y": 1}), json!({"x": 0})];
        assert!(any_has(&path, all.iter()));
        assert!(!any_has(&path, all[..1].iter()));
    }

    #[test]
    fn values_have_an_order() {
        check(json!({"x": 9}), json!({"x": 10}), Ordering::Less);
        check(json!({"x": 1.5}), json!({"x": 1}), Ordering::Greater);
        check(json!({"x": "a"}), json!({"x": "b"}), Ordering::Less);
        check(json!({}), json!({"x": 0}), Ordering::Less);
        check(json!({}), json!({}), Ordering::Equal);
        check(json!({"x": false}), json!({"x": true}), Ordering::Less);
        check(json!({"x": 9}), json!({"x": "1"}), Ordering::Less);
    }
}
