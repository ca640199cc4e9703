//! The declared rules of single values, as pure functions.
use super::names::{is_label_value, is_name, is_qualified_name};
use crate::{
    json,
    record::{Key, Value},
    schema::{Element, FieldSchema, Schema, Shape},
    violation::Violation,
};

/// What stands in a message instead of a value that must not be shown.
const HIDDEN: &str = "<hidden>";

/// Length of strings and bytes, number of items of lists and maps.
pub(super) fn check_length(field: &FieldSchema, value: &Value, path: &str) -> Option<Violation> {
    let (length, is_text) = match value {
        Value::String(text) => (text.len(), true),
        Value::Bytes(bytes) => (bytes.len(), true),
        Value::List(items) => (items.len(), false),
        Value::Map(entries) => (entries.len(), false),
        Value::Bool(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::Record(_)
        | Value::Time { .. }
        | Value::Open(_) => return None,
    };
    let min = field.rules.min_len.unwrap_or_default() as usize;
    let max = field.rules.max_len.map_or(usize::MAX, |max| max as usize);
    if max < length {
        return Some(match is_text {
            true => Violation::too_long(path, max),
            false => Violation::too_many(path, length, max),
        });
    }
    if length < min {
        let unit = if is_text { "bytes" } else { "items" };
        let why = format!("must have at least {min} {unit}");
        return Some(Violation::invalid(path, show(field, value), &why));
    }
    None
}

/// Whether the text of a single field without presence is as its rules say.
pub(crate) fn text_fits(field: &FieldSchema, text: &str) -> bool {
    match text.len() {
        0 => !field.rules.required,
        length => length_fits(field, length) && check_text(field, text, "").is_none(),
    }
}

/// Whether the texts of a list or a map are as the rules of the field say.
pub(crate) fn items_fit<'a>(
    field: &FieldSchema,
    length: usize,
    mut items: impl Iterator<Item = &'a str>,
) -> bool {
    match length {
        0 => !field.rules.required,
        _ => length_fits(field, length) && items.all(|text| check_text(field, text, "").is_none()),
    }
}

fn length_fits(field: &FieldSchema, length: usize) -> bool {
    let min = field.rules.min_len.unwrap_or_default() as usize;
    let max = field.rules.max_len.map_or(usize::MAX, |max| max as usize);
    (min..=max).contains(&length)
}

/// Everything else that a scalar must be like.
pub(super) fn check_scalar(field: &FieldSchema, value: &Value, path: &str) -> Option<Violation> {
    if let Value::String(text) = value {
        return check_text(field, text, path);
    }
    let number = number_of(value)?;
    let (min, max) = (field.rules.min, field.rules.max);
    let why = match (min, max) {
        _ if !number.is_finite() => "must be a finite number".to_owned(),
        (Some(min), Some(max)) if number < min || max < number => {
            format!("must be between {min} and {max}")
        }
        (Some(min), None) if number < min => format!("must be at least {min}"),
        (None, Some(max)) if max < number => format!("must be at most {max}"),
        _ => return None,
    };
    Some(Violation::invalid(path, show(field, value), &why))
}

fn check_text(field: &FieldSchema, text: &str, path: &str) -> Option<Violation> {
    let rules = &field.rules;
    // An empty string in a field without presence is an absent value.
    let absent = !field.presence && matches!(field.shape, Shape::Single(_)) && text.is_empty();
    if absent {
        return None;
    }
    if !rules.values.is_empty() && !rules.values.iter().any(|allowed| allowed == text) {
        let shown = if rules.sensitive { HIDDEN } else { text };
        return Some(Violation::not_supported(path, shown, &rules.values));
    }
    let shown = || show_text(field, text);
    if let Some(pattern) = &field.pattern
        && !pattern.is_match(text)
    {
        let why = format!("must match the pattern {}", rules.pattern);
        return Some(Violation::invalid(path, shown(), &why));
    }
    let why = format_problem(&rules.format, text)?;
    Some(Violation::invalid(path, shown(), why))
}

/// Why a string does not have the shape that its definition names.
fn format_problem(format: &str, text: &str) -> Option<&'static str> {
    let (valid, why) = match format {
        "name" => (is_name(text), NAME_RULE),
        "qualified-name" => (is_qualified_name(text), QUALIFIED_NAME_RULE),
        "label-value" => (is_label_value(text), LABEL_VALUE_RULE),
        // Other names are refused when the kind is registered.
        _ => (true, ""),
    };
    (!valid).then_some(why)
}

pub(super) const NAME_RULE: &str = "must be at most 63 lower-case letters, digits or '-', and \
                                    start and end with a letter or digit";
pub(super) const DOTTED_NAME_RULE: &str = "must be parts of at most 63 lower-case letters, digits or '-' with dots \
     between them, each of which starts and ends with a letter or digit, and at most 253 bytes in all";
pub(super) const QUALIFIED_NAME_RULE: &str = "must be a name of at most 63 letters, digits, '-', '_' or '.' that starts and ends with a \
     letter or digit, with an optional domain and '/' before it, such as \"example.com/name\"";
pub(super) const LABEL_VALUE_RULE: &str = "must be empty or at most 63 letters, digits, '-', '_' or '.', and start and end with a \
     letter or digit";

fn number_of(value: &Value) -> Option<f64> {
    Some(match value {
        Value::I32(n) => f64::from(*n),
        Value::U32(n) => f64::from(*n),
        Value::I64(n) => *n as f64,
        Value::U64(n) => *n as f64,
        Value::F32(n) => f64::from(*n),
        Value::F64(n) => *n,
        Value::Bool(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Record(_)
        | Value::List(_)
        | Value::Map(_)
        | Value::Time { .. }
        | Value::Open(_) => return None,
    })
}

/// A value as it is repeated in a message; never the value of a sensitive field.
pub(super) fn show(field: &FieldSchema, value: &Value) -> String {
    if field.rules.sensitive {
        return HIDDEN.to_owned();
    }
    match value {
        Value::Record(_) | Value::Time { .. } | Value::Open(_) => "the object".to_owned(),
        Value::List(items) => format!("a list of {}", items.len()),
        Value::Map(entries) => format!("a map of {}", entries.len()),
        Value::F32(number) => number.to_string(),
        Value::F64(number) => number.to_string(),
        Value::Bool(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::String(_)
        | Value::Bytes(_) => json::scalar_text(value),
    }
}

fn show_text(field: &FieldSchema, text: &str) -> String {
    if field.rules.sensitive { HIDDEN.to_owned() } else { format!("{text:?}") }
}

/// What to write into a mandatory field, in the words of its definition.
pub(super) fn hint(field: &FieldSchema) -> String {
    let paragraph = field.doc.lines().next().unwrap_or_default();
    let sentence = paragraph.split(". ").next().unwrap_or_default().trim_end_matches(['.', ':']);
    let mut letters = sentence.chars();
    match (letters.next(), letters.clone().next()) {
        (None, _) => format!("set {:?}", field.json_name),
        // What begins with more than one capital letter is an abbreviation.
        (Some(_), Some(second)) if second.is_uppercase() => format!("must be set: {sentence}"),
        (Some(first), _) => format!("must be set: {}{}", first.to_lowercase(), letters.as_str()),
    }
}

/// The text of a map key in a path.
pub(super) fn key_text(key: &Key) -> String {
    json::key_text(key)
}

/// The key of an item in a keyed list.
pub(super) fn key_of<'v>(field: &FieldSchema, item: &'v Value) -> Option<&'v str> {
    item.as_record()?.get(field.key_number?)?.as_str()
}

/// Whether the definition of the items says itself that their key is mandatory.
pub(super) fn key_is_required(schema: &Schema, field: &FieldSchema) -> bool {
    let (Some(key), Element::Message(id)) = (field.key(), field.shape.element()) else {
        return false;
    };
    schema.message(id).field_by_json_name(key).is_some_and(|key| key.rules.required)
}

/// A text that is equal for equal items of a set.
pub(super) fn canonical(schema: &Schema, field: &FieldSchema, item: &Value) -> String {
    json::element_text(schema, field.shape.element(), item)
}
