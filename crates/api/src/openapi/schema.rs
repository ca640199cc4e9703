//! Schemas of messages.
use serde_json::{Map, Value, json};

use super::Dialect;
use crate::{
    json::parse_json,
    kind::Kind,
    schema::{Element, FieldSchema, MessageSchema, Scalar, Schema, Shape, WellKnown},
};

/// The shapes behind the formats of strings.
const NAME_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
const KEY_PATTERN: &str =
    "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
const LABEL_VALUE_PATTERN: &str = "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$";
const LABEL_LENGTH_MAX: u32 = 63;

/// Schemas of all messages that a kind is made of, by name.
pub(super) fn of_kind(kind: &Kind, dialect: Dialect) -> Vec<(String, Value)> {
    let writer = Writer { schema: kind.schema(), dialect };
    let messages = kind.schema().messages().iter();
    let mut schemas: Vec<(String, Value)> = messages
        .map(|message| (message.descriptor.full_name().to_owned(), writer.message(message)))
        .collect();
    if let Some((_, root)) = schemas.first_mut() {
        root["x-kubernetes-group-version-kind"] = json!([{
            "group": kind.group(), "version": kind.version(), "kind": kind.kind(),
        }]);
    }
    schemas
}

struct Writer<'a> {
    schema: &'a Schema,
    dialect: Dialect,
}

impl Writer<'_> {
    fn message(&self, message: &MessageSchema) -> Value {
        let mut properties = Map::new();
        for field in &message.fields {
            // Clients of this dialect know the project as the namespace.
            let renamed = message.is_metadata && field.json_name == "project";
            let name = if renamed { "namespace" } else { &field.json_name };
            properties.insert(name.to_owned(), self.field(field));
        }
        let mut schema = json!({ "type": "object" });
        if !message.doc.is_empty() {
            schema["description"] = json!(message.doc);
        }
        let required = required(message);
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema["properties"] = Value::Object(properties);
        if let (Dialect::V3, Some(choices)) = (self.dialect, choices(message)) {
            schema["allOf"] = choices;
        }
        schema
    }

    fn field(&self, field: &FieldSchema) -> Value {
        let mut schema = match field.shape {
            Shape::Single(element) => self.single(field, element),
            Shape::List(element) => {
                let mut list = json!({ "type": "array", "items": self.item(field, element) });
                limits(&mut list, field, "minItems", "maxItems");
                list_type(&mut list, field);
                list
            }
            Shape::Map { value, .. } => {
                let value = self.item(field, value);
                let mut map = json!({ "type": "object", "additionalProperties": value });
                limits(&mut map, field, "minProperties", "maxProperties");
                map
            }
        };
        if !field.doc.is_empty() {
            schema["description"] = json!(field.doc);
        }
        if let Ok(default) = parse_json(field.rules.default.as_bytes()) {
            schema["default"] = default;
        }
        if field.rules.immutable {
            schema["x-orrery-immutable"] = json!(true);
        }
        if field.rules.sensitive {
            schema["x-orrery-sensitive"] = json!(true);
        }
        schema
    }

    fn single(&self, field: &FieldSchema, element: Element) -> Value {
        match (element, self.dialect) {
            // What stands beside a reference is not read in version 3.
            (Element::Message(_), Dialect::V3) => json!({ "allOf": [self.element(element)] }),
            (Element::Message(_), Dialect::V2) | (Element::WellKnown(_), _) => {
                self.element(element)
            }
            (Element::Scalar(scalar), _) => {
                let mut value = self.item(field, element);
                if matches!(scalar, Scalar::String | Scalar::Bytes) {
                    limits(&mut value, field, "minLength", "maxLength");
                }
                value
            }
        }
    }

    /// One value of a field with the rules that hold for each of its values.
    fn item(&self, field: &FieldSchema, element: Element) -> Value {
        let mut value = self.element(element);
        match element {
            Element::Scalar(Scalar::String) => text_rules(&mut value, field),
            Element::Scalar(_) => number_rules(&mut value, field),
            Element::Message(_) | Element::WellKnown(_) => {}
        }
        value
    }

    fn element(&self, element: Element) -> Value {
        match element {
            Element::Scalar(scalar) => scalar_schema(scalar),
            Element::WellKnown(known) => well_known_schema(known),
            Element::Message(id) => {
                self.dialect.reference(self.schema.message(id).descriptor.full_name())
            }
        }
    }
}

fn scalar_schema(scalar: Scalar) -> Value {
    match scalar {
        Scalar::Bool => json!({ "type": "boolean" }),
        Scalar::Int32 => json!({ "type": "integer", "format": "int32" }),
        Scalar::Int64 => json!({ "type": "integer", "format": "int64" }),
        Scalar::Uint32 => {
            json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": u32::MAX })
        }
        Scalar::Uint64 => json!({ "type": "integer", "minimum": 0 }),
        Scalar::Float => json!({ "type": "number", "format": "float" }),
        Scalar::Double => json!({ "type": "number", "format": "double" }),
        Scalar::String => json!({ "type": "string" }),
        Scalar::Bytes => json!({ "type": "string", "format": "byte" }),
    }
}

fn well_known_schema(known: WellKnown) -> Value {
    match known {
        WellKnown::Timestamp => json!({ "type": "string", "format": "date-time" }),
        WellKnown::Duration => json!({ "type": "string", "pattern": "^-?[0-9]+([.][0-9]+)?s$" }),
        WellKnown::Struct => {
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
        }
        WellKnown::Value => json!({ "x-kubernetes-preserve-unknown-fields": true }),
        WellKnown::List => json!({
            "type": "array", "items": { "x-kubernetes-preserve-unknown-fields": true },
        }),
    }
}

fn text_rules(value: &mut Value, field: &FieldSchema) {
    let rules = &field.rules;
    if !rules.values.is_empty() {
        value["enum"] = json!(rules.values);
    }
    if !rules.pattern.is_empty() {
        value["pattern"] = json!(format!("^(?:{})$", rules.pattern));
    }
    let shape = match rules.format.as_str() {
        "name" => Some((NAME_PATTERN, Some(LABEL_LENGTH_MAX))),
        "qualified-name" => Some((KEY_PATTERN, None)),
        "label-value" => Some((LABEL_VALUE_PATTERN, Some(LABEL_LENGTH_MAX))),
        _ => None,
    };
    if let Some((pattern, length)) = shape {
        value["pattern"] = json!(pattern);
        if let Some(length) = length {
            value["maxLength"] = json!(length);
        }
    }
    if rules.sensitive {
        value["format"] = json!("password");
    }
}

fn number_rules(value: &mut Value, field: &FieldSchema) {
    for (key, limit) in [("minimum", field.rules.min), ("maximum", field.rules.max)] {
        if let Some(limit) = limit {
            value[key] = whole(limit);
        }
    }
}

/// A limit without a fraction is written without one.
fn whole(limit: f64) -> Value {
    let integer = limit as i64;
    if integer as f64 == limit { json!(integer) } else { json!(limit) }
}

/// Limits of a length. What is required must also not be empty, where it can be.
fn limits(value: &mut Value, field: &FieldSchema, min: &str, max: &str) {
    let single = matches!(field.shape, Shape::Single(_));
    let least = field.rules.min_len.unwrap_or_default();
    let least = if field.rules.required && !single { least.max(1) } else { least };
    if 0 < least {
        value[min] = json!(least);
    }
    if let Some(most) = field.rules.max_len {
        value[max] = json!(most);
    }
}

fn list_type(list: &mut Value, field: &FieldSchema) {
    match field.key() {
        _ if field.is_set() => list["x-kubernetes-list-type"] = json!("set"),
        Some(key) => {
            list["x-kubernetes-list-type"] = json!("map");
            list["x-kubernetes-list-map-keys"] = json!([key]);
        }
        None => list["x-kubernetes-list-type"] = json!("atomic"),
    }
}

/// What must be there. The name of an object may also come from the path, or be completed by the
/// server, so metadata demands nothing.
fn required(message: &MessageSchema) -> Vec<&str> {
    if message.is_metadata {
        return Vec::new();
    }
    let single = |oneof: &&crate::schema::OneofSchema| oneof.required && oneof.fields.len() == 1;
    let only = message.oneofs.iter().filter(single).flat_map(|oneof| oneof.fields.iter());
    let only = only.filter_map(|index| message.fields.get(*index));
    let fields = message.fields.iter().filter(|field| field.rules.required);
    fields.chain(only).map(|field| field.json_name.as_str()).collect()
}

/// Exactly one branch of each choice that must be made.
fn choices(message: &MessageSchema) -> Option<Value> {
    let must = message.oneofs.iter().filter(|oneof| oneof.required && 1 < oneof.fields.len());
    let each: Vec<Value> = must
        .map(|oneof| {
            let branches = oneof.fields.iter().filter_map(|index| message.fields.get(*index));
            let branches: Vec<Value> =
                branches.map(|field| json!({ "required": [field.json_name] })).collect();
            json!({ "oneOf": branches })
        })
        .collect();
    (!each.is_empty()).then_some(Value::Array(each))
}
