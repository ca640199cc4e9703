//! The core schema of YAML 1.2: what a plain scalar means.
use serde_json::{Number, Value};

/// The value of a plain scalar. Words such as `yes` and `on` are strings, `012` is twelve.
pub(super) fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => match number(text) {
            Some(number) => Value::Number(number?),
            None => Value::String(text.to_owned()),
        },
    })
}

/// The value of a scalar with an explicit tag of the core schema.
pub(super) fn tagged(tag: &str, text: &str) -> Result<Value, String> {
    let wrong = || format!("{text:?} is not a value of !!{tag}");
    match (tag, plain(text)?) {
        ("str", _) => Ok(Value::String(text.to_owned())),
        ("null", Value::Null) => Ok(Value::Null),
        ("bool", Value::Bool(value)) => Ok(Value::Bool(value)),
        ("int", Value::Number(number)) if !number.is_f64() => Ok(Value::Number(number)),
        ("float", Value::Number(number)) => Ok(Value::Number(number)),
        ("null" | "bool" | "int" | "float", _) => Err(wrong()),
        (other, _) => Err(format!("tag !!{other} is not supported: write plain values")),
    }
}

/// The number that a text is; an error for those that JSON cannot say.
fn number(text: &str) -> Option<Result<Number, String>> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Err(format!("{text} is a number that cannot be kept: write a finite one")));
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let valid = !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
            return valid.then(|| {
                u64::from_str_radix(digits, radix).map(Number::from).map_err(|_| too_large(text))
            });
        }
    }
    if !is_decimal(unsigned) {
        return None;
    }
    Some(decimal(text).ok_or_else(|| too_large(text)))
}

fn too_large(text: &str) -> String {
    format!("the number {text} is out of range")
}

/// Digits with an optional fraction and exponent, and at least one digit before the exponent.
fn is_decimal(unsigned: &str) -> bool {
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_is_valid = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent_is_valid
}

fn decimal(text: &str) -> Option<Number> {
    if let Ok(value) = text.parse::<i64>() {
        return Some(value.into());
    }
    if let Ok(value) = text.parse::<u64>() {
        return Some(value.into());
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_scalars_follow_the_core_schema() {
        let cases = [
            ("yes", json!("yes")),
            ("no", json!("no")),
            ("on", json!("on")),
            ("off", json!("off")),
            ("y", json!("y")),
            ("012", json!(12)),
            ("1e3", json!(1000.0)),
            ("1_000", json!("1_000")),
            ("190:20:30", json!("190:20:30")),
            ("2001-12-14", json!("2001-12-14")),
            ("0o14", json!(12)),
            ("0xC", json!(12)),
            ("0x", json!("0x")),
            ("-7", json!(-7)),
            ("+7", json!(7)),
            (".5", json!(0.5)),
            ("5.", json!(5.0)),
            (".", json!(".")),
            ("-", json!("-")),
            ("e3", json!("e3")),
            ("1e", json!("1e")),
            ("~", json!(null)),
            ("", json!(null)),
            ("Null", json!(null)),
            ("nULL", json!("nULL")),
            ("True", json!(true)),
            ("tRue", json!("tRue")),
            ("18446744073709551615", json!(u64::MAX)),
            ("1.2.3", json!("1.2.3")),
            ("=", json!("=")),
        ];
        for (text, expect) in cases {
            assert_eq!(plain(text), Ok(expect), "{text}");
        }
        for text in [".inf", "-.INF", ".nan", "1e999", "0xFFFFFFFFFFFFFFFFF"] {
            assert!(plain(text).is_err(), "{text}");
        }
    }

    #[test]
    fn tags_of_the_core_schema_are_kept() {
        assert_eq!(tagged("str", "012"), Ok(json!("012")));
        assert_eq!(tagged("int", "7"), Ok(json!(7)));
        assert!(tagged("int", "seven").is_err());
        assert!(tagged("binary", "aGk=").is_err());
    }
}
