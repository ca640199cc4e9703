//! Whether two values of JSON say the same.
use serde_json::{Number, Value};

/// Above this a number of this kind is no 64-bit integer.
const WHOLE_MAX: f64 = 18_446_744_073_709_551_616.0;

/// Whether they are equal as RFC 6902 has it: numbers by what they are worth and not by how they are written,
/// objects whatever the order of their keys.
pub fn same_json(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => same_number(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_json(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| same_json(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        (a, b) => a == b,
    }
}

fn same_number(a: &Number, b: &Number) -> bool {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.as_f64() == b.as_f64(),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The value of a number that is whole, exactly.
fn whole(number: &Number) -> Option<i128> {
    let exact = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    exact.or_else(|| {
        let value = number.as_f64()?;
        (value.fract() == 0.0 && value.abs() <= WHOLE_MAX).then_some(value as i128)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &str, b: &str, expect: bool) {
        let read = |text| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(same_json(&read(a), &read(b)), expect, "{a} {b}");
        assert_eq!(same_json(&read(b), &read(a)), expect, "{b} {a}");
    }

    #[test]
    fn numbers_are_compared_by_what_they_are_worth() {
        check("3", "3.0", true);
        check("3", "30e-1", true);
        check("0", "-0.0", true);
        check("-1", "-1.0", true);
        check("3", "3.5", false);
        check("0.5", "5e-1", true);
        check("1e300", "10e299", true);
        check("3", "\"3\"", false);
        check("0", "false", false);
        check("0", "null", false);
        check("18446744073709551615", "18446744073709551615", true);
        check("18446744073709551615", "18446744073709551616.0", false);
        check("9223372036854775807", "9223372036854775808", false);
        check("9007199254740993", "9007199254740992.0", false);
        check("-9223372036854775808", "-9223372036854775808.0", true);
    }

    #[test]
    fn so_are_those_within() {
        check(r#"{"a": [1, {"b": 2.0}], "c": null}"#, r#"{"c": null, "a": [1.0, {"b": 2}]}"#, true);
        check("[1, 2]", "[2, 1]", false);
        check("[1]", "[1, 1]", false);
        check(r#"{"a": 1}"#, r#"{"a": 1, "b": null}"#, false);
        check(r#"{"a": null}"#, r#"{"b": null}"#, false);
    }
}
