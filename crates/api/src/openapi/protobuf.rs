//! OpenAPI 2.0 in its protobuf form, which kubectl before 1.29 asks for.
//!
//! The messages are those of gnostic's `openapi.v2`; only the fields that our own documents have are
//! written. Maps are lists of names and values there, and what has no type is YAML text.
use prost::encoding;
use serde_json::{Map, Value};

/// The media type of this form.
pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// What clients ask for when they mean it. It is no valid media type, so it is never answered with:
/// older clients could not read their own question.
pub const MEDIA_TYPE_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// Writes a document that [`super::swagger`] made.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text_of(1, document, "swagger");
    if let Some(info) = document.get("info") {
        let mut written = Message::default();
        written.text_of(1, info, "title");
        written.text_of(2, info, "version");
        out.message(2, &written);
    }
    let mut paths = Message::default();
    for (name, item) in entries(document, "paths") {
        paths.message(2, &named(name, &path_item(item)));
    }
    out.message(8, &paths);
    out.message(9, &named_schemas(document, "definitions"));
    out.0
}

/// A message while it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn text(&mut self, tag: u32, text: &str) {
        encoding::string::encode(tag, &text.to_owned(), &mut self.0);
    }

    fn text_of(&mut self, tag: u32, from: &Value, key: &str) {
        if let Some(text) = from.get(key).and_then(Value::as_str) {
            self.text(tag, text);
        }
    }

    fn texts_of(&mut self, tag: u32, from: &Value, key: &str) {
        for item in from.get(key).and_then(Value::as_array).into_iter().flatten() {
            self.text(tag, item.as_str().unwrap_or_default());
        }
    }

    fn number_of(&mut self, tag: u32, from: &Value, key: &str) {
        if let Some(number) = from.get(key).and_then(Value::as_f64) {
            encoding::double::encode(tag, &number, &mut self.0);
        }
    }

    fn integer_of(&mut self, tag: u32, from: &Value, key: &str) {
        if let Some(number) = from.get(key).and_then(Value::as_i64) {
            encoding::int64::encode(tag, &number, &mut self.0);
        }
    }

    fn flag_of(&mut self, tag: u32, from: &Value, key: &str) {
        if let Some(flag) = from.get(key).and_then(Value::as_bool) {
            encoding::bool::encode(tag, &flag, &mut self.0);
        }
    }

    fn message(&mut self, tag: u32, message: &Self) {
        encoding::bytes::encode(tag, &message.0, &mut self.0);
    }

    /// Everything that begins with `x-`.
    fn extensions(&mut self, tag: u32, from: &Value) {
        for (name, value) in from.as_object().into_iter().flatten() {
            if name.starts_with("x-") {
                self.message(tag, &named(name, &any(value)));
            }
        }
    }
}

fn entries<'a>(from: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    from.get(key).and_then(Value::as_object).into_iter().flatten()
}

fn named(name: &str, value: &Message) -> Message {
    let mut pair = Message::default();
    pair.text(1, name);
    pair.message(2, value);
    pair
}

/// JSON is YAML.
fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.text(2, &value.to_string());
    any
}

fn wrapped(tag: u32, message: &Message) -> Message {
    let mut outer = Message::default();
    outer.message(tag, message);
    outer
}

fn named_schemas(from: &Value, key: &str) -> Message {
    let mut all = Message::default();
    for (name, value) in entries(from, key) {
        all.message(1, &named(name, &schema(value)));
    }
    all
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    let methods = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];
    for (method, tag) in methods {
        if let Some(found) = item.get(method) {
            out.message(tag, &operation(found));
        }
    }
    parameters(&mut out, 9, item);
    out
}

fn operation(operation: &Value) -> Message {
    let mut out = Message::default();
    out.texts_of(1, operation, "tags");
    out.text_of(3, operation, "description");
    out.text_of(5, operation, "operationId");
    out.texts_of(6, operation, "produces");
    out.texts_of(7, operation, "consumes");
    parameters(&mut out, 8, operation);
    let mut responses = Message::default();
    for (code, answer) in entries(operation, "responses") {
        responses.message(1, &named(code, &wrapped(1, &response(answer))));
    }
    out.message(9, &responses);
    out.extensions(13, operation);
    out
}

fn response(answer: &Value) -> Message {
    let mut out = Message::default();
    out.text_of(1, answer, "description");
    if let Some(found) = answer.get("schema") {
        out.message(2, &wrapped(1, &schema(found)));
    }
    out
}

fn parameters(out: &mut Message, tag: u32, from: &Value) {
    for parameter in from.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        let written = match parameter["in"].as_str() {
            Some("body") => wrapped(1, &body_parameter(parameter)),
            Some("path") => wrapped(2, &wrapped(4, &simple_parameter(parameter, 5))),
            Some(_) | None => wrapped(2, &wrapped(3, &simple_parameter(parameter, 6))),
        };
        out.message(tag, &wrapped(1, &written));
    }
}

fn body_parameter(parameter: &Value) -> Message {
    let mut out = Message::default();
    out.text_of(1, parameter, "description");
    out.text_of(2, parameter, "name");
    out.text_of(3, parameter, "in");
    out.flag_of(4, parameter, "required");
    if let Some(found) = parameter.get("schema") {
        out.message(5, &schema(found));
    }
    out
}

/// Parameters of queries and of paths differ in the place of their type.
fn simple_parameter(parameter: &Value, type_tag: u32) -> Message {
    let mut out = Message::default();
    out.flag_of(1, parameter, "required");
    out.text_of(2, parameter, "in");
    out.text_of(3, parameter, "description");
    out.text_of(4, parameter, "name");
    out.text_of(type_tag, parameter, "type");
    out
}

fn schema(schema_of: &Value) -> Message {
    let mut out = Message::default();
    out.text_of(1, schema_of, "$ref");
    out.text_of(2, schema_of, "format");
    out.text_of(4, schema_of, "description");
    if let Some(default) = schema_of.get("default") {
        out.message(5, &any(default));
    }
    out.number_of(7, schema_of, "maximum");
    out.number_of(9, schema_of, "minimum");
    out.integer_of(11, schema_of, "maxLength");
    out.integer_of(12, schema_of, "minLength");
    out.text_of(13, schema_of, "pattern");
    out.integer_of(14, schema_of, "maxItems");
    out.integer_of(15, schema_of, "minItems");
    out.integer_of(17, schema_of, "maxProperties");
    out.integer_of(18, schema_of, "minProperties");
    out.texts_of(19, schema_of, "required");
    for value in schema_of.get("enum").and_then(Value::as_array).into_iter().flatten() {
        out.message(20, &any(value));
    }
    if let Some(values) = schema_of.get("additionalProperties").filter(|value| value.is_object()) {
        out.message(21, &wrapped(1, &schema(values)));
    }
    if let Some(kind) = schema_of.get("type").and_then(Value::as_str) {
        let mut types = Message::default();
        types.text(1, kind);
        out.message(22, &types);
    }
    if let Some(items) = schema_of.get("items") {
        out.message(23, &wrapped(1, &schema(items)));
    }
    if schema_of.get("properties").is_some_and(|found| *found != Value::Object(Map::new())) {
        out.message(25, &named_schemas(schema_of, "properties"));
    }
    out.extensions(31, schema_of);
    out
}
