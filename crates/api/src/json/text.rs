//! Parses JSON text to a value, within limits and without losing duplicate keys.
use std::{
    cell::{Cell, RefCell},
    fmt,
};

use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess};
use serde_json::{Map, Number, Value};

use super::{DecodeError, JSON_BYTES_MAX, JSON_DEPTH_MAX};
use crate::{
    path::Path,
    violation::{Findings, Reason, Violation},
};

/// Parses JSON text of one resource. Size, UTF-8, depth and duplicate keys are checked here, all
/// before anything is built from the values.
pub fn parse_json(text: &[u8]) -> Result<Value, DecodeError> {
    parse_json_up_to(text, JSON_BYTES_MAX)
}

/// The same for those who decide themselves what fields are that are written twice: the last one counts, and
/// all of them are told.
pub fn parse_json_noting(text: &[u8]) -> Result<(Value, Vec<Violation>), DecodeError> {
    parse_up_to(text, JSON_BYTES_MAX)
}

/// Parses JSON text of at most `limit` bytes.
pub(crate) fn parse_json_up_to(text: &[u8], limit: usize) -> Result<Value, DecodeError> {
    match parse_up_to(text, limit)? {
        (value, duplicates) if duplicates.is_empty() => Ok(value),
        (_, duplicates) => Err(DecodeError::Invalid(duplicates)),
    }
}

fn parse_up_to(text: &[u8], limit: usize) -> Result<(Value, Vec<Violation>), DecodeError> {
    if limit < text.len() {
        return Err(DecodeError::TooLarge { size: text.len(), limit });
    }
    let text = std::str::from_utf8(text)
        .map_err(|error| DecodeError::NotUtf8 { offset: error.valid_up_to() })?;
    let state = State::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let seed = Seed { state: &state, place: Place::Root, depth: 0 };
    let parsed = seed.deserialize(&mut deserializer);
    let parsed = parsed.and_then(|value| deserializer.end().map(|()| value));
    if let Some(path) = state.too_deep.take() {
        return Err(DecodeError::TooDeep { path, limit: JSON_DEPTH_MAX });
    }
    let value = parsed.map_err(|error| syntax_error(&error))?;
    Ok((value, state.duplicates.into_inner().into_vec()))
}

fn syntax_error(error: &serde_json::Error) -> DecodeError {
    let (line, column) = (error.line(), error.column());
    let text = error.to_string();
    let place = format!(" at line {line} column {column}");
    let message = text.strip_suffix(&place).unwrap_or(&text).to_owned();
    DecodeError::Syntax { line, column, message }
}

/// What the parser learns beside the value.
#[derive(Default)]
struct State {
    duplicates: RefCell<Findings>,
    too_deep: Cell<Option<String>>,
}

/// Where in the text a value is. It is put into words only for a problem.
#[derive(Clone, Copy)]
enum Place<'a> {
    Root,
    Key(&'a Place<'a>, &'a str),
    Index(&'a Place<'a>, usize),
}

impl Place<'_> {
    fn path(&self) -> String {
        let mut path = Path::default();
        self.write(&mut path);
        path.to_string()
    }

    fn write(&self, path: &mut Path) {
        match self {
            Self::Root => {}
            Self::Key(parent, key) => {
                parent.write(path);
                path.enter_field(key);
            }
            Self::Index(parent, index) => {
                parent.write(path);
                path.enter_index(*index);
            }
        }
    }
}

/// Builds one value.
struct Seed<'a> {
    state: &'a State,
    place: Place<'a>,
    depth: usize,
}

impl<'a> Seed<'a> {
    fn child<E: de::Error>(&'a self, place: Place<'a>) -> Result<Self, E> {
        if JSON_DEPTH_MAX < self.depth + 1 {
            self.state.too_deep.set(Some(self.place.path()));
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self { state: self.state, place, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> de::Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let place = Place::Index(&self.place, list.len());
            match items.next_element_seed(self.child(place)?)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let place = Place::Key(&self.place, &key);
            let value = entries.next_value_seed(self.child(place)?)?;
            if map.contains_key(&key) {
                let message = "Duplicate value: the field is written twice";
                let duplicate = || Violation::new(place.path(), Reason::Duplicate, message);
                self.state.duplicates.borrow_mut().report(duplicate);
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], expect: &str) {
        let error = parse_json(text).expect_err("the text is bad");
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn bad_text_is_named() {
        check(b"{\"a\": 1", "line 1, column 7: EOF while parsing an object");
        check(b"{\"a\": 1} x", "line 1, column 10: trailing characters");
        check(b"{\"a\": \"\xff\"}", "not valid UTF-8 at byte 7");
        check(b"", "line 1, column 0: EOF while parsing a value");
        check(b"1e999", "line 1, column 5: number out of range");
    }

    #[test]
    fn all_duplicate_keys_are_named() {
        check(
            br#"{"a": {"b": 1, "b": 2}, "c": [{"d": 1, "d": 1}]}"#,
            "a.b: Duplicate value: the field is written twice; \
             c[0].d: Duplicate value: the field is written twice",
        );
        let (value, twice) = parse_json_noting(br#"{"a": 1, "a": 2}"#).expect("it can be read");
        assert_eq!((value, twice.len()), (serde_json::json!({ "a": 2 }), 1), "the last one counts");
    }

    #[test]
    fn limits_hold_before_anything_is_built() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(parse_json(deep(JSON_DEPTH_MAX).as_bytes()).is_ok());
        let error = parse_json(deep(JSON_DEPTH_MAX + 1).as_bytes()).expect_err("too deep");
        assert!(matches!(error, DecodeError::TooDeep { limit: JSON_DEPTH_MAX, .. }), "{error}");
        assert!(parse_json("[".repeat(500_000).as_bytes()).is_err());

        let large = format!("\"{}\"", "x".repeat(JSON_BYTES_MAX));
        let error = parse_json(large.as_bytes()).expect_err("too large");
        assert!(matches!(error, DecodeError::TooLarge { .. }), "{error}");
    }
}
