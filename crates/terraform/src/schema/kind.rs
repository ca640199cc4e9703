//! From the definition of a kind to attributes.
use super::{Attribute, Choice, Form, Mode, Nesting, Object, Shape};
use crate::convert;
use crate::value::{Type, Value};
use orrery_api::{
    Element, FieldSchema, Kind, MessageId, MessageSchema, Scalar, Schema, Shape as FieldShape,
    WellKnown,
};

/// What the server keeps of an object beside what people say of it, and whether that lasts.
const KEPT: [(&str, bool); 4] = [
    ("uid", true),
    ("resource_version", false),
    ("generation", false),
    ("creation_timestamp", true),
];
/// What people say of an object.
const SAID: [&str; 5] = ["name", "project", "description", "labels", "annotations"];

/// A resource of a kind: what people declare, what the server says of it, and how long to wait for it.
pub fn resource(kind: &Kind) -> Object {
    let mut object = Builder::new(kind).root();
    object.attributes.push(local(
        "wait_for_ready",
        Mode::Optional,
        Shape::Plain(Type::Bool, Form::Natural),
        "Whether an apply ends only when the resource is ready; true when it is not set.",
    ));
    object.attributes.push(local(
        "timeouts",
        Mode::Optional,
        Shape::Nested(Nesting::Single, timeouts()),
        "How long it may take until the resource is ready, or gone: \"30s\", \"20m\", \"1h30m\".",
    ));
    object
}

/// The same kind to look at: who asks says which object, and the server says the rest.
pub fn data_source(kind: &Kind) -> Object {
    let mut object = all_computed(&Builder::new(kind).root());
    let mut choosable = |name: &str, mode: Mode| {
        let metadata = object.attributes.iter_mut().find(|a| a.name == "metadata");
        let Some(metadata) = metadata else { return };
        metadata.mode = Mode::Required;
        if let Shape::Nested(_, meta) = &mut metadata.shape
            && let Some(found) = meta.attributes.iter_mut().find(|a| a.name == name)
        {
            found.mode = mode;
        }
    };
    choosable("name", Mode::Required);
    choosable("project", Mode::Chosen);
    object
}

/// The waits that have a deadline.
fn timeouts() -> Object {
    let each = [("create", "20m"), ("update", "20m"), ("delete", "20m")].map(|(name, usual)| {
        let text = format!("Until the {name} is over; {usual} when it is not set.");
        local(name, Mode::Optional, Shape::Plain(Type::String, Form::Natural), &text)
    });
    Object { attributes: each.into(), choices: Vec::new() }
}

fn local(name: &str, mode: Mode, shape: Shape, description: &str) -> Attribute {
    Attribute {
        name: name.to_owned(),
        json: None,
        description: description.to_owned(),
        mode,
        sensitive: false,
        immutable: false,
        shape,
        kept_in: None,
    }
}

fn all_computed(object: &Object) -> Object {
    let each = object.attributes.iter().map(|attribute| {
        let shape = match &attribute.shape {
            Shape::Nested(nesting, object) => Shape::Nested(nesting.clone(), all_computed(object)),
            plain @ Shape::Plain(_, _) => plain.clone(),
        };
        let mode = Mode::Computed { lasting: false };
        Attribute { mode, shape, immutable: false, ..attribute.clone() }
    });
    Object { attributes: each.collect(), choices: Vec::new() }
}

struct Builder<'a> {
    kind: &'a Kind,
    schema: &'a Schema,
    /// The messages that the walk is in.
    within: Vec<MessageId>,
}

/// Where a field is.
#[derive(Clone, Copy)]
struct Place {
    /// In what only the server writes.
    computed: bool,
    /// In a list, a set or a map, where values cannot bring their types along.
    collected: bool,
}

impl<'a> Builder<'a> {
    fn new(kind: &'a Kind) -> Self {
        Self { kind, schema: kind.schema(), within: vec![Schema::ROOT] }
    }

    fn root(&mut self) -> Object {
        let root = self.schema.root();
        let mut attributes = vec![
            local(
                "id",
                Mode::Computed { lasting: true },
                Shape::Plain(Type::String, Form::Natural),
                &self.id_words(),
            ),
            local(
                "api_version",
                Mode::Computed { lasting: true },
                Shape::Plain(Type::String, Form::Natural),
                "Version of the definition that the resource is written in.",
            ),
        ];
        for field in &root.fields {
            match field.json_name.as_str() {
                "apiVersion" | "kind" => {}
                "metadata" => attributes.push(self.metadata(field)),
                name => {
                    let computed = name == "status";
                    attributes.push(self.field(root, field, Place { computed, collected: false }));
                }
            }
        }
        Object { attributes, choices: choices(root) }
    }

    fn id_words(&self) -> String {
        let form = if self.kind.cluster_scoped() { "its name" } else { "PROJECT/NAME" };
        format!("What the resource is imported by: {form}.")
    }

    fn metadata(&mut self, field: &FieldSchema) -> Attribute {
        let Element::Message(id) = field.shape.element() else {
            return self.field(
                self.schema.root(),
                field,
                Place { computed: false, collected: false },
            );
        };
        let message = self.schema.message(id);
        let place = Place { computed: false, collected: false };
        let mut attributes = Vec::new();
        for inner in &message.fields {
            let name = inner.descriptor.name();
            let mut attribute = self.field(message, inner, place);
            if let Some((_, lasting)) = KEPT.iter().find(|(kept, _)| *kept == name) {
                attribute.mode = Mode::Computed { lasting: *lasting };
            } else if !SAID.contains(&name) || name == "project" && self.kind.cluster_scoped() {
                continue;
            }
            if name == "project" {
                attribute.mode = Mode::Chosen;
            }
            attributes.push(attribute);
        }
        let shape = Shape::Nested(Nesting::Single, Object { attributes, choices: Vec::new() });
        Attribute {
            json: Some(field.json_name.clone()),
            ..local("metadata", Mode::Required, shape, &field.doc)
        }
    }

    fn field(&mut self, message: &MessageSchema, field: &FieldSchema, place: Place) -> Attribute {
        let shape = self.shape(field, place);
        let rules = &field.rules;
        let only = field
            .oneof
            .map(|at| &message.oneofs[at])
            .is_some_and(|o| o.required && o.fields.len() == 1);
        let mode = match (place.computed, default(&shape, field)) {
            (true, _) => Mode::Computed { lasting: false },
            (false, _) if rules.required || only || asks_for_more(&shape, field) => Mode::Required,
            (false, Some(default)) => Mode::Defaulted(default),
            (false, None) => Mode::Optional,
        };
        Attribute {
            name: field.descriptor.name().to_owned(),
            json: Some(field.json_name.clone()),
            description: describe(field),
            mode,
            sensitive: rules.sensitive,
            immutable: rules.immutable,
            shape,
            kept_in: (!rules.kept_in.is_empty()).then(|| rules.kept_in.clone()),
        }
    }

    fn shape(&mut self, field: &FieldSchema, place: Place) -> Shape {
        let collected = place.collected || !matches!(field.shape, FieldShape::Single(_));
        let place = Place { collected, ..place };
        let element = match field.shape.element() {
            Element::Message(id) if !self.within.contains(&id) => {
                self.within.push(id);
                let object = self.message(id, place);
                self.within.pop();
                return Shape::Nested(nesting(field, &object), object);
            }
            // A message that contains itself has no end: the inner one is written as JSON.
            Element::Message(_) => (Type::String, Form::JsonText),
            Element::Scalar(scalar) => of_scalar(scalar),
            Element::WellKnown(known) => of_well_known(known, place.collected),
        };
        let (r#type, form) = element;
        match field.shape {
            FieldShape::Single(_) => Shape::Plain(r#type, form),
            FieldShape::List(_) if field.is_set() => Shape::Plain(Type::set(r#type), form),
            FieldShape::List(_) => Shape::Plain(Type::list(r#type), form),
            FieldShape::Map { .. } => Shape::Plain(Type::map(r#type), form),
        }
    }

    fn message(&mut self, id: MessageId, place: Place) -> Object {
        let message = self.schema.message(id);
        let attributes = message.fields.iter().map(|field| self.field(message, field, place));
        Object { attributes: attributes.collect(), choices: choices(message) }
    }
}

/// The spec of a kind is asked for where something in it is.
fn asks_for_more(shape: &Shape, field: &FieldSchema) -> bool {
    let Shape::Nested(Nesting::Single, object) = shape else { return false };
    let needed = object.attributes.iter().any(|attribute| attribute.mode == Mode::Required);
    field.json_name == "spec" && (needed || object.choices.iter().any(|choice| choice.required))
}

fn nesting(field: &FieldSchema, object: &Object) -> Nesting {
    match field.shape {
        FieldShape::Single(_) => Nesting::Single,
        FieldShape::Map { .. } => Nesting::Map,
        FieldShape::List(_) => match field.key().and_then(|key| object.by_json(key)) {
            Some(key) => Nesting::Keyed { key: key.name.clone() },
            None => Nesting::List,
        },
    }
}

fn of_scalar(scalar: Scalar) -> (Type, Form) {
    match scalar {
        Scalar::Bool => (Type::Bool, Form::Natural),
        Scalar::Int32
        | Scalar::Int64
        | Scalar::Uint32
        | Scalar::Uint64
        | Scalar::Float
        | Scalar::Double => (Type::Number, Form::Natural),
        Scalar::String => (Type::String, Form::Natural),
        Scalar::Bytes => (Type::String, Form::Bytes),
    }
}

fn of_well_known(known: WellKnown, collected: bool) -> (Type, Form) {
    match known {
        WellKnown::Timestamp => (Type::String, Form::Time),
        WellKnown::Duration => (Type::String, Form::Duration),
        WellKnown::Struct | WellKnown::Value | WellKnown::List if collected => {
            (Type::String, Form::JsonText)
        }
        WellKnown::Struct | WellKnown::Value | WellKnown::List => (Type::Dynamic, Form::Opaque),
    }
}

fn choices(message: &MessageSchema) -> Vec<Choice> {
    let several = message.oneofs.iter().filter(|oneof| 1 < oneof.fields.len());
    let name = |at: &usize| message.fields[*at].descriptor.name().to_owned();
    several
        .map(|oneof| Choice {
            required: oneof.required,
            branches: oneof.fields.iter().map(name).collect(),
        })
        .collect()
}

/// The declared default, as a value. That of a whole object is left to the server.
fn default(shape: &Shape, field: &FieldSchema) -> Option<Value> {
    let Shape::Plain(r#type, form) = shape else { return None };
    let json = serde_json::from_str(&field.rules.default).ok()?;
    Some(convert::plain_from_json(&json, r#type, *form))
}

/// The comment of a field, and those of its rules that a person must know.
fn describe(field: &FieldSchema) -> String {
    let rules = &field.rules;
    let mut text = field.doc.clone();
    let mut add = |holds: bool, words: String| {
        if holds {
            text.push_str(&words);
        }
    };
    add(!rules.values.is_empty(), format!(" One of: {}.", rules.values.join(", ")));
    add(!rules.default.is_empty(), format!(" The server fills in {}.", rules.default));
    add(rules.immutable, " A change makes a new resource.".to_owned());
    add(!rules.kept_in.is_empty(), format!(" Kept in {}.", rules.kept_in));
    text
}
