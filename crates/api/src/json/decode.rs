//! From a JSON value to a message: every problem is collected with its path.
use prost::Message as _;
use prost_reflect::prost_types::{self, value::Kind};
use serde_json::{Map, Value};

use super::{
    DecodeError, DecodeOptions, UnknownFields, WIRE_DEPTH_MAX, describe,
    scalar::{self, Mismatch},
    text::parse_json,
    well_known,
};
use crate::{
    kind,
    path::Path,
    record::{self, Record},
    schema::{Element, FieldSchema, MessageId, MessageSchema, Scalar, Schema, Shape, WellKnown},
    violation::{Findings, Reason, Violation, summarize},
};

/// The other name of `project` in metadata.
pub(super) const NAMESPACE: &str = "namespace";
pub(super) const PROJECT: &str = "project";

/// Reads a resource of `kind`; returns its message and what was dropped.
pub(crate) fn decode(
    kind: &kind::Kind,
    value: &Value,
    options: &DecodeOptions,
) -> Result<(Record, Vec<Violation>), DecodeError> {
    let mut decoder = Decoder::new(kind.schema(), options);
    decoder.check_type(kind, value);
    let message = decoder.message(Schema::ROOT, value, WIRE_DEPTH_MAX);
    match message {
        Some(message) if decoder.problems.is_empty() => Ok((message, decoder.warnings.into_vec())),
        Some(_) | None => Err(DecodeError::Invalid(decoder.problems.into_vec())),
    }
}

/// Reads the JSON text of a field's declared default.
pub(crate) fn decode_default(
    schema: &Schema,
    field: &FieldSchema,
) -> Result<record::Value, String> {
    let value = parse_json(field.rules.default.as_bytes()).map_err(|error| error.to_string())?;
    let options = DecodeOptions::default();
    let mut decoder = Decoder::new(schema, &options);
    let decoded = decoder.field(field, &value, WIRE_DEPTH_MAX);
    match decoded {
        Some(decoded) if decoder.problems.is_empty() => Ok(decoded),
        Some(_) | None => Err(summarize(&decoder.problems.into_vec())),
    }
}

/// Walks a value beside the schema. Methods return `None` after they have noted a problem.
pub(super) struct Decoder<'a> {
    schema: &'a Schema,
    options: &'a DecodeOptions,
    pub(super) path: Path,
    problems: Findings,
    warnings: Findings,
}

impl<'a> Decoder<'a> {
    fn new(schema: &'a Schema, options: &'a DecodeOptions) -> Self {
        let (problems, warnings) = (Findings::default(), Findings::default());
        Self { schema, options, path: Path::default(), problems, warnings }
    }

    pub(super) fn mismatch(&mut self, mismatch: Mismatch) {
        let Mismatch { expected, found } = mismatch;
        let path = self.path.as_str();
        self.problems.report(|| Violation::wrong_type(path, &expected, found));
    }

    /// Takes `levels` of the nesting that is left, or notes that there is none.
    pub(super) fn descend(&mut self, depth: usize, levels: usize) -> Option<usize> {
        let left = depth.checked_sub(levels);
        if left.is_none() {
            let message = "Invalid value: nested too deeply: use fewer levels";
            let path = self.path.as_str();
            self.problems.report(|| Violation::new(path, Reason::Invalid, message));
        }
        left
    }

    /// A resource may leave its type out where the caller knows it, but must not contradict it.
    fn check_type(&mut self, kind: &kind::Kind, value: &Value) {
        for (field, expected) in [("apiVersion", kind.api_version()), ("kind", kind.kind())] {
            if let Some(Value::String(found)) = value.get(field)
                && !found.is_empty()
                && found != expected
            {
                let why = format!("must be {expected:?}");
                self.problems.report(|| Violation::invalid(field, format!("{found:?}"), &why));
            }
        }
    }

    fn message(&mut self, id: MessageId, value: &Value, depth: usize) -> Option<Record> {
        let Value::Object(entries) = value else {
            let found = describe(value);
            self.mismatch(Mismatch { expected: "an object".to_owned(), found });
            return None;
        };
        let depth = self.descend(depth, 1)?;
        let schema = self.schema.message(id);
        let mut record = Record::new();
        let mut chosen: Vec<Option<&str>> = vec![None; schema.oneofs.len()];
        for (name, value) in entries {
            let mark = self.path.enter_field(name);
            self.entry(schema, name, value, depth, &mut chosen, &mut record);
            self.path.leave(mark);
        }
        if schema.is_metadata {
            self.check_project(entries);
        }
        Some(record)
    }

    fn entry<'s>(
        &mut self,
        schema: &'s MessageSchema,
        name: &str,
        value: &Value,
        depth: usize,
        chosen: &mut [Option<&'s str>],
        record: &mut Record,
    ) {
        let alias = if schema.is_metadata && name == NAMESPACE { PROJECT } else { name };
        let Some(field) = schema.field_by_json_name(alias) else {
            return self.unknown(schema, name);
        };
        // Null says the same as leaving the field out, except where any value is taken.
        let takes_null = field.shape == Shape::Single(Element::WellKnown(WellKnown::Value));
        if value.is_null() && !takes_null {
            return;
        }
        if let Some(oneof) = field.oneof {
            match chosen[oneof] {
                Some(first) => return self.second_branch(first, &field.json_name),
                None => chosen[oneof] = Some(&field.json_name),
            }
        }
        if let Some(value) = self.field(field, value, depth) {
            schema.set(record, field, value);
        }
    }

    fn unknown(&mut self, schema: &MessageSchema, name: &str) {
        let known = schema.fields.iter().map(|field| field.json_name.as_str());
        let path = self.path.as_str();
        match self.options.unknown_fields {
            UnknownFields::Refuse => &mut self.problems,
            UnknownFields::Drop => &mut self.warnings,
        }
        .report(|| Violation::unknown_field(path, name, known));
    }

    fn second_branch(&mut self, first: &str, second: &str) {
        let why = format!("only one of {first:?} and {second:?} may be set: remove the other");
        let path = self.path.as_str();
        self.problems.report(|| Violation::forbidden(path, &why));
    }

    fn check_project(&mut self, entries: &Map<String, Value>) {
        let (project, namespace) = (entries.get(PROJECT), entries.get(NAMESPACE));
        if let (Some(Value::String(project)), Some(Value::String(namespace))) = (project, namespace)
            && project != namespace
        {
            let why =
                format!("must be {project:?}: namespace and project are two names of one value");
            let path = format!("{}.{NAMESPACE}", self.path);
            self.problems.report(|| Violation::invalid(path, format!("{namespace:?}"), &why));
        }
    }

    fn field(&mut self, field: &FieldSchema, value: &Value, depth: usize) -> Option<record::Value> {
        match (field.shape, value) {
            (Shape::Single(element), value) => self.element(field, element, value, depth),
            (Shape::List(element), Value::Array(items)) => self.list(field, element, items, depth),
            (Shape::Map { key, value: element }, Value::Object(entries)) => {
                self.map(field, key, element, entries, depth)
            }
            (Shape::List(_), _) => {
                self.mismatch(Mismatch { expected: "a list".to_owned(), found: describe(value) });
                None
            }
            (Shape::Map { .. }, _) => {
                let expected = "an object of keys and values".to_owned();
                self.mismatch(Mismatch { expected, found: describe(value) });
                None
            }
        }
    }

    fn list(
        &mut self,
        field: &FieldSchema,
        element: Element,
        items: &[Value],
        depth: usize,
    ) -> Option<record::Value> {
        let mut list = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let mark = self.path.enter_index(index);
            list.extend(self.element(field, element, item, depth));
            self.path.leave(mark);
        }
        Some(record::Value::List(list))
    }

    fn map(
        &mut self,
        field: &FieldSchema,
        key: Scalar,
        element: Element,
        entries: &Map<String, Value>,
        depth: usize,
    ) -> Option<record::Value> {
        let depth = self.descend(depth, 1)?;
        let mut map = record::Map::new();
        for (name, value) in entries {
            let mark = self.path.enter_key(name);
            let key = scalar::decode_key(key, name).map_err(|mismatch| self.mismatch(mismatch));
            let value = self.element(field, element, value, depth);
            self.path.leave(mark);
            if let (Ok(key), Some(value)) = (key, value) {
                map.insert(key, value);
            }
        }
        Some(record::Value::Map(map))
    }

    fn element(
        &mut self,
        field: &FieldSchema,
        element: Element,
        value: &Value,
        depth: usize,
    ) -> Option<record::Value> {
        match element {
            Element::Message(id) => self.message(id, value, depth).map(record::Value::Record),
            Element::WellKnown(known) => self.well_known(field, known, value, depth),
            Element::Scalar(scalar) => match scalar::decode(scalar, value) {
                Ok(value) => Some(value),
                Err(mut mismatch) => {
                    if field.rules.sensitive {
                        mismatch.found = "something else".to_owned();
                    }
                    self.mismatch(mismatch);
                    None
                }
            },
        }
    }

    fn well_known(
        &mut self,
        field: &FieldSchema,
        known: WellKnown,
        value: &Value,
        depth: usize,
    ) -> Option<record::Value> {
        let open = match (known, value) {
            (WellKnown::Struct, Value::Object(fields)) => {
                let object = self.opaque_struct(fields, depth)?;
                if field.rules.struct_bytes {
                    return Some(record::Value::Bytes(object.encode_to_vec().into()));
                }
                Kind::StructValue(object)
            }
            (WellKnown::List, Value::Array(items)) => {
                Kind::ListValue(self.opaque_list(items, depth)?)
            }
            (WellKnown::Value, value) => return self.opaque_value(value, depth).map(open_value),
            (WellKnown::Timestamp | WellKnown::Duration, value) => {
                let time = well_known::decode_time(known, value);
                return time.map_err(|mismatch| self.mismatch(mismatch)).ok();
            }
            (WellKnown::Struct | WellKnown::List, value) => {
                self.mismatch(well_known::wrong(known, value));
                return None;
            }
        };
        Some(open_value(prost_types::Value { kind: Some(open) }))
    }
}

fn open_value(value: prost_types::Value) -> record::Value {
    record::Value::Open(Box::new(value))
}
