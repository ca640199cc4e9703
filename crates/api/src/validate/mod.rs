//! Validation: everything that is wrong with an object, found in one walk.
//!
//! The declared rules come from the schema, the rules of metadata from [`metadata`], and what
//! options cannot express from the validators that were registered for the kind.
mod metadata;
mod names;
mod rules;

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

pub(crate) use metadata::{ANNOTATIONS_BYTES_MAX, has_one_controller};
use names::is_domain;
pub use names::{is_label_value, is_name, is_qualified_name};
pub(crate) use rules::{items_fit, text_fits};

use crate::{
    json::{struct_bytes_problem, well_known_problem},
    object::{Object, same_value},
    path::Path,
    record::{Key, Map, Record, Value},
    schema::{Element, FieldSchema, MessageId, Schema, Shape},
    violation::{Findings, Violation},
};

/// Everything that is wrong with `object`. `old` is the stored object on an update: what must not
/// change is compared with it.
pub fn validate(object: &Object, old: Option<&Object>) -> Vec<Violation> {
    let kind = object.kind();
    let recorded = kind.recorded();
    let mut checker = Checker { recorded, ..Checker::of(kind.schema()) };
    let old_message = old.map(Object::record);
    checker.message(Schema::ROOT, &with_mandatory_parts(object), old_message);
    let mut findings = checker.found;
    metadata::validate(object, &mut findings);
    let mut found = findings.into_vec();
    found.extend(crate::sharing::violations(object));
    for validator in &kind.validators {
        found.extend(validator(object, old));
    }
    found
}

/// Everything that is wrong with the status of `object`. Validators that are registered for a kind
/// judge what people ask for, so none of them is asked.
pub fn validate_status(object: &Object, old: Option<&Object>) -> Vec<Violation> {
    validate_part(object, old, object.kind().numbers.status)
}

/// Everything that the definition finds wrong with the spec of `object`; validators are not asked.
pub(crate) fn validate_spec(object: &Object, old: Option<&Object>) -> Vec<Violation> {
    let mut found = validate_part(object, old, object.kind().numbers.spec);
    found.extend(crate::sharing::violations(object));
    found
}

fn validate_part(object: &Object, old: Option<&Object>, part: Option<u32>) -> Vec<Violation> {
    let kind = object.kind();
    let mut checker = Checker::of(kind.schema());
    let found = part.and_then(|number| kind.schema().root().numbered(number, 0));
    if let Some((_, field)) = found {
        let _mark = checker.path.enter_field(&field.json_name);
        let value = object.record().get(field.number);
        let before = old.and_then(|old| old.record().get(field.number));
        checker.field(field, value, before);
    }
    checker.found.into_vec()
}

/// Whether one field is as its definition says.
pub(crate) fn field_fits(
    schema: &Schema,
    field: &FieldSchema,
    value: Option<&Value>,
    before: Option<&Value>,
) -> bool {
    let mut checker = Checker::of(schema);
    checker.field(field, value, before);
    checker.found.is_empty()
}

/// An object without metadata or spec is checked as if they were empty, so that what is mandatory
/// in them is named one by one.
fn with_mandatory_parts(object: &Object) -> Cow<'_, Record> {
    let mut record = Cow::Borrowed(object.record());
    let numbers = &object.kind().numbers;
    for part in std::iter::once(numbers.metadata).chain(numbers.spec) {
        if !record.has(part) {
            record.to_mut().record_mut(part);
        }
    }
    record
}

/// The path of the name of an object.
const NAME: &str = "metadata.name";

struct Checker<'a> {
    schema: &'a Schema,
    path: Path,
    found: Findings,
    /// Whether programs name the object as they like to.
    recorded: bool,
}

impl<'a> Checker<'a> {
    fn of(schema: &'a Schema) -> Self {
        let (path, found) = (Path::default(), Findings::default());
        Self { schema, path, found, recorded: false }
    }

    /// Notes a problem of the field that the walk is at.
    fn report(&mut self, make: impl FnOnce(&str) -> Violation) {
        let path = self.path.as_str();
        self.found.report(|| make(path));
    }

    fn message(&mut self, id: MessageId, new: &Record, old: Option<&Record>) {
        let schema = self.schema.message(id);
        for field in &schema.fields {
            let mark = self.path.enter_field(&field.json_name);
            let value = new.get(field.number);
            let before = old.and_then(|old| old.get(field.number));
            self.field(field, value, before);
            self.path.leave(mark);
        }
        for oneof in schema.oneofs.iter().filter(|oneof| oneof.required) {
            let branches = || oneof.fields.iter().map(|index| &schema.fields[*index]);
            if !branches().any(|field| new.has(field.number)) {
                let names: Vec<&str> = branches().map(|field| field.json_name.as_str()).collect();
                let hint = match names.as_slice() {
                    [only] => format!("set {only:?}"),
                    several => format!("set exactly one of {}", several.join(", ")),
                };
                self.report(|path| Violation::required(path, &hint));
            }
        }
    }

    fn field(&mut self, field: &FieldSchema, value: Option<&Value>, before: Option<&Value>) {
        if field.rules.immutable && before.is_some() {
            let same = matches!((value, before), (Some(a), Some(b)) if same_value(self.schema, field, a, b));
            if !same {
                let shown = value.map_or_else(|| "nothing".to_owned(), |v| rules::show(field, v));
                let why = "field is immutable: delete the object and create it again to change it";
                self.report(|path| Violation::invalid(path, shown, why));
                return;
            }
        }
        match value {
            Some(value) if !(field.rules.required && is_empty_text(value)) => {
                self.value(field, value, before);
            }
            Some(_) | None if field.rules.required => {
                self.report(|path| Violation::required(path, &rules::hint(field)));
            }
            Some(_) | None => {}
        }
    }

    fn value(&mut self, field: &FieldSchema, value: &Value, before: Option<&Value>) {
        if let Some(violation) = rules::check_length(field, value, self.path.as_str()) {
            self.report(|_| violation);
        }
        let element = field.shape.element();
        match (field.shape, value) {
            (Shape::List(_), Value::List(items)) => self.list(field, items, before),
            (Shape::Map { .. }, Value::Map(entries)) => {
                let before = before.and_then(Value::as_map);
                for (key, value) in in_order_of_text(entries) {
                    let mark = self.path.enter_key(&rules::key_text(key));
                    self.element(field, element, value, before.and_then(|old| old.get(key)));
                    self.path.leave(mark);
                }
            }
            (Shape::Single(_) | Shape::List(_) | Shape::Map { .. }, value) => {
                self.element(field, element, value, before);
            }
        }
    }

    fn list(&mut self, field: &FieldSchema, items: &[Value], before: Option<&Value>) {
        let old_by_key = keyed(field, before.and_then(Value::as_list).unwrap_or_default());
        let mut seen = HashSet::new();
        for (index, item) in items.iter().enumerate() {
            let mark = self.path.enter_index(index);
            let key = rules::key_of(field, item);
            let first = self.unique(field, item, key, &mut seen);
            // Of several items with one key, only the first can be the one that was there.
            let old = key.filter(|_| first).and_then(|key| old_by_key.get(key).copied());
            self.element(field, field.shape.element(), item, old);
            self.path.leave(mark);
        }
    }

    /// Whether an item is the first of its kind in a set or of its key; reports the others.
    fn unique(
        &mut self,
        field: &FieldSchema,
        item: &Value,
        key: Option<&str>,
        seen: &mut HashSet<String>,
    ) -> bool {
        if let Some(name) = field.key() {
            return self.unique_key(field, name, key, seen);
        }
        if field.is_set() && !seen.insert(rules::canonical(self.schema, field, item)) {
            let shown = rules::show(field, item);
            self.report(|path| Violation::duplicate(path, shown));
            return false;
        }
        true
    }

    fn unique_key(
        &mut self,
        field: &FieldSchema,
        name: &str,
        key: Option<&str>,
        seen: &mut HashSet<String>,
    ) -> bool {
        match key.filter(|key| !key.is_empty()) {
            // A key that is declared mandatory is reported with the item's own fields.
            None if rules::key_is_required(self.schema, field) => true,
            None => {
                let hint = "it tells the items of this list apart";
                self.report(|path| Violation::required(format!("{path}.{name}"), hint));
                true
            }
            Some(key) if !seen.insert(key.to_owned()) => {
                self.report(|path| {
                    Violation::duplicate(format!("{path}.{name}"), format!("{key:?}"))
                });
                false
            }
            Some(_) => true,
        }
    }

    fn element(
        &mut self,
        field: &FieldSchema,
        element: Element,
        value: &Value,
        before: Option<&Value>,
    ) {
        match (element, value) {
            (Element::Message(id), Value::Record(record)) => {
                self.message(id, record, before.and_then(Value::as_record));
            }
            (Element::WellKnown(_), Value::Bytes(bytes)) => {
                if let Some(why) = struct_bytes_problem(bytes) {
                    let shown = rules::show(field, value);
                    self.report(|path| Violation::invalid(path, shown, why));
                }
            }
            (Element::WellKnown(known), value) => {
                if let Some(why) = well_known_problem(known, value) {
                    let shown = rules::show(field, value);
                    self.report(|path| Violation::invalid(path, shown, why));
                }
            }
            (Element::Scalar(_), Value::String(name))
                if self.recorded && self.path.as_str() == NAME =>
            {
                if !is_domain(name) {
                    self.report(|path| {
                        Violation::invalid(path, format!("{name:?}"), rules::DOTTED_NAME_RULE)
                    });
                }
            }
            (Element::Scalar(_) | Element::Message(_), value) => {
                if let Some(violation) = rules::check_scalar(field, value, self.path.as_str()) {
                    self.report(|_| violation);
                }
            }
        }
    }
}

fn is_empty_text(value: &Value) -> bool {
    value.as_str().is_some_and(str::is_empty)
}

/// Numbers come in the order in which their texts do, as in all that is printed.
fn in_order_of_text(entries: &Map) -> Vec<(&Key, &Value)> {
    let mut sorted: Vec<(&Key, &Value)> = entries.iter().collect();
    if !matches!(sorted.first(), None | Some((Key::String(_), _))) {
        sorted.sort_by_cached_key(|(key, _)| rules::key_text(key));
    }
    sorted
}

/// Items by their key; of several with one key, the first.
fn keyed<'v>(field: &FieldSchema, items: &'v [Value]) -> HashMap<&'v str, &'v Value> {
    items.iter().rev().filter_map(|item| Some((rules::key_of(field, item)?, item))).collect()
}
