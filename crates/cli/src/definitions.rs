//! What a definition says about a field, in words: for `explain` and for the reference.
use orrery_api::{Element, FieldSchema, MessageSchema, Scalar, Schema, Shape, WellKnown};

/// The type as people read it: `string`, `[]integer`, `map[string]Object`.
pub fn type_name(shape: Shape) -> String {
    match shape {
        Shape::Single(element) => element_name(element).to_owned(),
        Shape::List(element) => format!("[]{}", element_name(element)),
        Shape::Map { key, value } => format!("map[{}]{}", scalar_name(key), element_name(value)),
    }
}

fn element_name(element: Element) -> &'static str {
    match element {
        Element::Scalar(scalar) => scalar_name(scalar),
        Element::Message(_) => "Object",
        Element::WellKnown(WellKnown::Timestamp) => "timestamp",
        Element::WellKnown(WellKnown::Duration) => "duration",
        Element::WellKnown(WellKnown::Struct) => "any object",
        Element::WellKnown(WellKnown::Value) => "any value",
        Element::WellKnown(WellKnown::List) => "any list",
    }
}

fn scalar_name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Bool => "boolean",
        Scalar::Int32 | Scalar::Int64 | Scalar::Uint32 | Scalar::Uint64 => "integer",
        Scalar::Float | Scalar::Double => "number",
        Scalar::String => "string",
        Scalar::Bytes => "base64",
    }
}

/// The message that a field leads into.
pub fn message<'a>(schema: &'a Schema, field: &FieldSchema) -> Option<&'a MessageSchema> {
    match field.shape.element() {
        Element::Message(id) => Some(schema.message(id)),
        Element::Scalar(_) | Element::WellKnown(_) => None,
    }
}

/// The rules of a field, a short clause each.
pub fn rules(message: &MessageSchema, field: &FieldSchema) -> Vec<String> {
    let rules = &field.rules;
    let mut found = Vec::new();
    let mut say = |holds: bool, text: String| {
        if holds {
            found.push(text);
        }
    };
    say(rules.required, "required".into());
    say(rules.immutable, "cannot be changed".into());
    say(!rules.default.is_empty(), format!("default {}", rules.default));
    say(!rules.values.is_empty(), format!("one of {}", rules.values.join(", ")));
    say(!rules.format.is_empty(), format!("a {}", rules.format));
    say(!rules.pattern.is_empty(), format!("matches {}", rules.pattern));
    say(rules.min.is_some() || rules.max.is_some(), range(rules.min, rules.max, ""));
    let lengths = (rules.min_len.map(f64::from), rules.max_len.map(f64::from));
    say(lengths != (None, None), range(lengths.0, lengths.1, unit(field.shape)));
    say(rules.set, "a set".into());
    say(!rules.key.is_empty(), format!("keyed by {}", rules.key));
    say(rules.sensitive, "sensitive".into());
    say(!rules.refers_to.is_empty(), format!("names a {}", rules.refers_to));
    if let Some(choice) = field.oneof.map(|at| &message.oneofs[at]).filter(|c| 1 < c.fields.len()) {
        let names = choice.fields.iter().map(|at| message.fields[*at].json_name.as_str());
        let how = if choice.required { "exactly one" } else { "at most one" };
        found.push(format!("{how} of {}", names.collect::<Vec<_>>().join(", ")));
    } else if let Some(choice) = field.oneof.map(|at| &message.oneofs[at])
        && choice.required
    {
        found.push("required".into());
    }
    found
}

fn unit(shape: Shape) -> &'static str {
    match shape {
        Shape::Single(_) => " bytes",
        Shape::List(_) | Shape::Map { .. } => " items",
    }
}

fn range(min: Option<f64>, max: Option<f64>, unit: &str) -> String {
    match (min, max) {
        (Some(min), Some(max)) => format!("{min} to {max}{unit}"),
        (Some(min), None) => format!("at least {min}{unit}"),
        (None, Some(max)) => format!("at most {max}{unit}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme;

    #[track_caller]
    fn check(path: &str, r#type: &str, expect: &[&str]) {
        let scheme = scheme::local(None).unwrap();
        let kind = scheme.resolve("", "workload").unwrap();
        let schema = kind.schema();
        let field = schema.field(path).unwrap();
        let parent = path.rsplit_once('.').map(|(parent, _)| schema.field(parent).unwrap());
        let message = parent.map_or(schema.root(), |parent| message(schema, parent).unwrap());
        assert_eq!(type_name(field.shape), r#type, "{path}");
        assert_eq!(rules(message, field), expect, "{path}");
    }

    #[test]
    fn fields_say_what_they_are() {
        check("spec", "Object", &[]);
        check("spec.process.args", "[]string", &["at most 1024 items"]);
        check("spec.process.env", "map[string]string", &["at most 1024 items"]);
        check("spec.stopGraceSeconds", "integer", &["default 10", "0 to 3600"]);
        check(
            "spec.restartPolicy",
            "string",
            &["default \"always\"", "one of always, onFailure, never"],
        );
        check("metadata.creationTimestamp", "timestamp", &[]);
    }
}
