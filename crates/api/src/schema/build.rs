//! Compiles descriptors to a [`Schema`] and refuses definitions that could not be kept.
use std::collections::{HashMap, HashSet};

use orrery_proto::options::v1::{FieldRules, KindRules, OneofRules};
use prost::Message;
use prost_reflect::{
    Cardinality, DynamicMessage, FieldDescriptor, Kind as ProtoKind, MessageDescriptor,
};
use regex::Regex;

use super::{
    Coding, Codings, Element, FieldSchema, MessageId, MessageSchema, OneofSchema, Scalar, Schema,
    Shape, WellKnown,
};
use crate::{
    docs::{field_doc, message_doc},
    json::decode_default,
    scheme::RegistrationError,
};

const METADATA_MESSAGE: &str = "orrery.meta.v1.ObjectMeta";
const KIND_OPTION: &str = "orrery.options.v1.kind";
const FIELD_OPTION: &str = "orrery.options.v1.field";
const ONEOF_OPTION: &str = "orrery.options.v1.oneof";
/// The shapes that the `format` option may name.
const FORMATS: [&str; 3] = ["name", "qualified-name", "label-value"];

/// Compiles a kind; every problem is reported, not only the first.
pub(crate) fn build(root: &MessageDescriptor) -> Result<Schema, Vec<RegistrationError>> {
    let mut builder = Builder::default();
    builder.message(root);
    let mut next = 0;
    // Messages are queued as they are found, so a message that contains itself ends too.
    while let Some(descriptor) = builder.queue.get(next).cloned() {
        let message = builder.compile(&descriptor);
        builder.messages.push(message);
        next += 1;
    }
    let mut schema = Schema { messages: builder.messages };
    let mut problems = builder.problems;
    if problems.is_empty() {
        fill_defaults(&mut schema, &mut problems);
        check_immutable(&schema, Schema::ROOT, false, &mut HashSet::new(), &mut problems);
    }
    if problems.is_empty() { Ok(schema) } else { Err(problems) }
}

/// The kind option of a message; `None` when the message is not a kind.
pub(crate) fn rules_of_kind(
    descriptor: &MessageDescriptor,
) -> Result<Option<KindRules>, RegistrationError> {
    extension(&descriptor.options(), descriptor, KIND_OPTION)
}

fn extension<T: Message + Default>(
    options: &DynamicMessage,
    owner: &MessageDescriptor,
    name: &str,
) -> Result<Option<T>, RegistrationError> {
    let Some(extension) = owner.parent_pool().get_extension_by_name(name) else { return Ok(None) };
    if !options.has_extension(&extension) {
        return Ok(None);
    }
    let value = options.get_extension(&extension);
    let rules = value.as_message().map(DynamicMessage::transcode_to::<T>).transpose();
    rules.map_err(|error| RegistrationError::Definition {
        place: owner.full_name().to_owned(),
        problem: format!("option {name} cannot be read: {error}"),
    })
}

#[derive(Default)]
struct Builder {
    queue: Vec<MessageDescriptor>,
    ids: HashMap<String, MessageId>,
    messages: Vec<MessageSchema>,
    problems: Vec<RegistrationError>,
}

impl Builder {
    fn message(&mut self, descriptor: &MessageDescriptor) -> MessageId {
        if let Some(id) = self.ids.get(descriptor.full_name()) {
            return *id;
        }
        let id = MessageId(self.queue.len());
        self.ids.insert(descriptor.full_name().to_owned(), id);
        self.queue.push(descriptor.clone());
        id
    }

    fn compile(&mut self, descriptor: &MessageDescriptor) -> MessageSchema {
        let mut oneofs = self.oneofs(descriptor);
        let mut fields: Vec<FieldSchema> = Vec::new();
        for field in in_order_of_definition(descriptor) {
            let Some(mut compiled) = self.field(&field) else { continue };
            compiled.oneof = oneofs.iter().position(|oneof| in_oneof(&field, &oneof.name));
            if let Some(oneof) = compiled.oneof {
                oneofs[oneof].fields.push(fields.len());
            }
            self.check_rules(&compiled);
            fields.push(compiled);
        }
        // They stay as long as the process, and there are thousands.
        fields.shrink_to_fit();
        let mut by_number: Vec<usize> = (0..fields.len()).collect();
        by_number.sort_by_key(|index| fields[*index].number);
        MessageSchema {
            descriptor: descriptor.clone(),
            doc: message_doc(descriptor),
            fields,
            by_number,
            oneofs,
            is_metadata: descriptor.full_name() == METADATA_MESSAGE,
        }
    }

    fn oneofs(&mut self, descriptor: &MessageDescriptor) -> Vec<OneofSchema> {
        let real = descriptor.oneofs().filter(|oneof| !oneof.is_synthetic());
        let mut compiled = Vec::new();
        for oneof in real {
            let rules = extension::<OneofRules>(&oneof.options(), descriptor, ONEOF_OPTION);
            let required = self.accept(rules).flatten().unwrap_or_default().required;
            compiled.push(OneofSchema {
                name: oneof.name().to_owned(),
                required,
                fields: Vec::new(),
            });
        }
        compiled
    }

    fn field(&mut self, field: &FieldDescriptor) -> Option<FieldSchema> {
        let rules = extension::<FieldRules>(&field.options(), field.parent_message(), FIELD_OPTION);
        let rules = self.accept(rules).flatten().unwrap_or_default();
        let shape = if rules.struct_bytes { self.struct_bytes(field) } else { self.shape(field)? };
        let pattern = self.pattern(field, &rules.pattern);
        Some(FieldSchema {
            descriptor: field.clone(),
            number: field.number(),
            presence: field.supports_presence(),
            key_number: key_number(field, &rules.key),
            json_name: field.json_name().to_owned(),
            doc: field_doc(field),
            shape,
            rules,
            pattern,
            default: None,
            oneof: None,
            codings: codings(field),
        })
    }

    fn shape(&mut self, field: &FieldDescriptor) -> Option<Shape> {
        if let ProtoKind::Message(entry) = field.kind()
            && field.is_map()
        {
            let key = scalar(&entry.map_entry_key_field().kind())?;
            let value = self.element(&entry.map_entry_value_field())?;
            return Some(Shape::Map { key, value });
        }
        let element = self.element(field)?;
        Some(match field.cardinality() {
            Cardinality::Repeated => Shape::List(element),
            Cardinality::Optional | Cardinality::Required => Shape::Single(element),
        })
    }

    fn element(&mut self, field: &FieldDescriptor) -> Option<Element> {
        let kind = field.kind();
        if let Some(message) = kind.as_message() {
            if message.package_name() != "google.protobuf" {
                return Some(Element::Message(self.message(message)));
            }
            let found = well_known(message.full_name()).map(Element::WellKnown);
            if found.is_none() {
                self.refuse(field, format!("{} has no form in a kind", message.full_name()));
            }
            return found;
        }
        let found = scalar(&kind).map(Element::Scalar);
        if found.is_none() {
            self.refuse(field, "enumerated values are strings with `values`".to_owned());
        }
        found
    }

    /// A struct that is kept as its bytes.
    fn struct_bytes(&mut self, field: &FieldDescriptor) -> Shape {
        if field.is_list() || field.kind() != ProtoKind::Bytes {
            self.refuse(field, "struct_bytes is for a field of bytes".to_owned());
        }
        Shape::Single(Element::WellKnown(WellKnown::Struct))
    }

    fn pattern(&mut self, field: &FieldDescriptor, pattern: &str) -> Option<Regex> {
        if pattern.is_empty() {
            return None;
        }
        match Regex::new(&format!("^(?:{pattern})$")) {
            Ok(regex) => Some(regex),
            Err(error) => {
                self.refuse(field, format!("pattern {pattern:?} does not compile: {error}"));
                None
            }
        }
    }

    /// Rules that say something about values the field cannot hold are mistakes.
    fn check_rules(&mut self, field: &FieldSchema) {
        let rules = &field.rules;
        let is_list = matches!(field.shape, Shape::List(_));
        let is_string = field.shape.element() == Element::Scalar(Scalar::String);
        let descriptor = &field.descriptor;
        if (rules.set || rules.atomic || !rules.key.is_empty()) && !is_list {
            self.refuse(descriptor, "set, key and atomic are for lists".to_owned());
        }
        if usize::from(rules.set) + usize::from(rules.atomic) + usize::from(!rules.key.is_empty())
            > 1
        {
            self.refuse(descriptor, "say only one of set, key and atomic".to_owned());
        }
        if !is_string && (field.pattern.is_some() || !rules.values.is_empty()) {
            self.refuse(descriptor, "pattern and values are for strings".to_owned());
        }
        let format_is_known = is_string && FORMATS.contains(&rules.format.as_str());
        if !rules.format.is_empty() && !format_is_known {
            let known = FORMATS.join(", ");
            self.refuse(descriptor, format!("format must be one of {known}, on a string"));
        }
        if !rules.default.is_empty() && field.oneof.is_some() {
            self.refuse(descriptor, "a branch of a oneof cannot have a default".to_owned());
        }
        let plain = matches!(field.shape, Shape::Single(_)) && !descriptor.supports_presence();
        if !rules.default.is_empty() && plain {
            self.refuse(descriptor, "a field with a default must be optional".to_owned());
        }
        self.check_key(field);
        self.check_keeper(field);
    }

    /// Texts are kept as bytes in the map beside them.
    fn check_keeper(&mut self, field: &FieldSchema) {
        let keeper = &field.rules.kept_in;
        if keeper.is_empty() {
            return;
        }
        let found = field.descriptor.parent_message().get_field_by_json_name(keeper);
        let holds = |field: Option<FieldDescriptor>, kind: ProtoKind| {
            let entry = field.filter(FieldDescriptor::is_map).map(|map| map.kind());
            let value = entry.and_then(|entry| Some(entry.as_message()?.map_entry_value_field()));
            value.is_some_and(|value| value.kind() == kind)
        };
        let texts = holds(Some(field.descriptor.clone()), ProtoKind::String);
        if !texts || !holds(found, ProtoKind::Bytes) {
            let problem = "kept_in is for a map of strings, and names a map of bytes beside it";
            self.refuse(&field.descriptor, problem.to_owned());
        }
    }

    fn check_key(&mut self, field: &FieldSchema) {
        let Some(key) = field.key() else { return };
        let ProtoKind::Message(item) = field.descriptor.kind() else {
            return self.refuse(&field.descriptor, "key is for lists of messages".to_owned());
        };
        let found = item.get_field_by_json_name(key);
        if found.is_none_or(|found| !matches!(found.kind(), ProtoKind::String) || found.is_list()) {
            self.refuse(&field.descriptor, format!("key {key:?} is not a string of its items"));
        }
    }

    fn accept<T>(&mut self, found: Result<T, RegistrationError>) -> Option<T> {
        found.map_err(|problem| self.problems.push(problem)).ok()
    }

    fn refuse(&mut self, field: &FieldDescriptor, problem: String) {
        let place = field.full_name().to_owned();
        self.problems.push(RegistrationError::Definition { place, problem });
    }
}

/// Fields in the order of the file, as people read them; descriptors sort them by number.
fn in_order_of_definition(descriptor: &MessageDescriptor) -> Vec<FieldDescriptor> {
    let mut fields: Vec<FieldDescriptor> = descriptor.fields().collect();
    fields.sort_by_key(|field| field.path().last().copied());
    fields
}

fn in_oneof(field: &FieldDescriptor, name: &str) -> bool {
    field.containing_oneof().is_some_and(|oneof| oneof.name() == name)
}

fn scalar(kind: &ProtoKind) -> Option<Scalar> {
    Some(match kind {
        ProtoKind::Bool => Scalar::Bool,
        ProtoKind::Int32 | ProtoKind::Sint32 | ProtoKind::Sfixed32 => Scalar::Int32,
        ProtoKind::Int64 | ProtoKind::Sint64 | ProtoKind::Sfixed64 => Scalar::Int64,
        ProtoKind::Uint32 | ProtoKind::Fixed32 => Scalar::Uint32,
        ProtoKind::Uint64 | ProtoKind::Fixed64 => Scalar::Uint64,
        ProtoKind::Float => Scalar::Float,
        ProtoKind::Double => Scalar::Double,
        ProtoKind::String => Scalar::String,
        ProtoKind::Bytes => Scalar::Bytes,
        ProtoKind::Message(_) | ProtoKind::Enum(_) => return None,
    })
}

fn key_number(list: &FieldDescriptor, key: &str) -> Option<u32> {
    let ProtoKind::Message(item) = list.kind() else { return None };
    item.get_field_by_json_name(key).map(|field| field.number())
}

fn codings(field: &FieldDescriptor) -> Codings {
    let packed = field.is_packed();
    match field.kind() {
        ProtoKind::Message(entry) if field.is_map() => Codings {
            key: coding(&entry.map_entry_key_field().kind()),
            value: coding(&entry.map_entry_value_field().kind()),
            packed,
        },
        kind => Codings { value: coding(&kind), packed, ..Codings::default() },
    }
}

fn coding(kind: &ProtoKind) -> Coding {
    match kind {
        ProtoKind::Sint32 | ProtoKind::Sint64 => Coding::ZigZag,
        ProtoKind::Fixed32
        | ProtoKind::Fixed64
        | ProtoKind::Sfixed32
        | ProtoKind::Sfixed64
        | ProtoKind::Float
        | ProtoKind::Double => Coding::Fixed,
        ProtoKind::Bool
        | ProtoKind::Int32
        | ProtoKind::Int64
        | ProtoKind::Uint32
        | ProtoKind::Uint64
        | ProtoKind::String
        | ProtoKind::Bytes
        | ProtoKind::Message(_)
        | ProtoKind::Enum(_) => Coding::Varint,
    }
}

fn well_known(full_name: &str) -> Option<WellKnown> {
    Some(match full_name {
        "google.protobuf.Timestamp" => WellKnown::Timestamp,
        "google.protobuf.Duration" => WellKnown::Duration,
        "google.protobuf.Struct" => WellKnown::Struct,
        "google.protobuf.Value" => WellKnown::Value,
        "google.protobuf.ListValue" => WellKnown::List,
        _ => return None,
    })
}

/// Parses the JSON text of every default with the decoder that user input goes through.
fn fill_defaults(schema: &mut Schema, problems: &mut Vec<RegistrationError>) {
    let mut parsed = Vec::new();
    for (m, message) in schema.messages.iter().enumerate() {
        for (f, field) in message.fields.iter().enumerate() {
            if field.rules.default.is_empty() {
                continue;
            }
            match decode_default(schema, field) {
                Ok(value) => parsed.push((m, f, value)),
                Err(problem) => problems.push(RegistrationError::Definition {
                    place: field.descriptor.full_name().to_owned(),
                    problem: format!("default {}: {problem}", field.rules.default),
                }),
            }
        }
    }
    for (m, f, value) in parsed {
        schema.messages[m].fields[f].default = Some(value);
    }
}

/// Items of a list without a key have no identity, so nothing in them can be held immutable.
fn check_immutable(
    schema: &Schema,
    id: MessageId,
    unkeyed: bool,
    seen: &mut HashSet<(MessageId, bool)>,
    problems: &mut Vec<RegistrationError>,
) {
    if !seen.insert((id, unkeyed)) {
        return;
    }
    for field in &schema.message(id).fields {
        if unkeyed && field.rules.immutable {
            problems.push(RegistrationError::Definition {
                place: field.descriptor.full_name().to_owned(),
                problem: "immutable inside a list without key cannot be held".to_owned(),
            });
        }
        if let Element::Message(child) = field.shape.element() {
            let loose = matches!(field.shape, Shape::List(_)) && field.key().is_none();
            check_immutable(schema, child, unkeyed || loose, seen, problems);
        }
    }
}
