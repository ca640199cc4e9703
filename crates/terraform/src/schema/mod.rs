//! What a resource looks like in Terraform's language, made from the definition of its kind.
//!
//! ```text
//!   Kind (descriptor, rules, comments) --Catalog--> Object of attributes --> wire schema
//!                                                        |
//!                           plan, projection, validation: every walker follows it
//! ```
//!
//! Nothing is flattened: a message is a nested object, each branch of a choice an object of its own, a list whose
//! items have keys a set.
mod blocks;
mod catalog;
mod kind;
mod wire;

#[cfg(test)]
mod tests;

pub use blocks::{given as blocks_of, taken as attributes_of};
pub use catalog::{Catalog, ResourceType};
pub use kind::{data_source, resource};
pub use wire::schema;

use crate::value::{Type, Value};
use std::collections::BTreeMap;

/// How what is nested is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// As attributes, `spec = { ... }`: only protocol 6 has them.
    Attributes,
    /// As blocks, `spec { ... }`: the older style, which both protocols have.
    Blocks,
}

/// Attributes, and the choices between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    pub attributes: Vec<Attribute>,
    pub choices: Vec<Choice>,
}

/// One attribute.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    pub name: String,
    /// Its name in the JSON of a resource; `None` for what only the provider knows.
    pub json: Option<String>,
    pub description: String,
    pub mode: Mode,
    pub sensitive: bool,
    /// A change of it is a new resource.
    pub immutable: bool,
    pub shape: Shape,
    /// The JSON name of the field beside it that keeps what is written here.
    pub kept_in: Option<String>,
}

/// Who sets an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    Required,
    Optional,
    /// The person, or else the server, which fills in this.
    Defaulted(Value),
    /// The person, or else the provider.
    Chosen,
    /// The server alone. `lasting` says that it stays as it is for the life of the resource.
    Computed {
        lasting: bool,
    },
}

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A value, or a collection of values, that is written in JSON in this form.
    Plain(Type, Form),
    Nested(Nesting, Object),
}

/// How single values are written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they are.
    Natural,
    /// Bytes, in base64.
    Bytes,
    /// A point in time, in RFC 3339.
    Time,
    /// Seconds with an `s`.
    Duration,
    /// Any JSON, as a value that brings its type along.
    Opaque,
    /// Any JSON, as text: where a value that brings its type along cannot be.
    JsonText,
}

/// How many objects an attribute holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nesting {
    Single,
    /// The list is one value: its items have no identity of their own.
    List,
    /// The items are told apart by this attribute of theirs.
    Keyed {
        key: String,
    },
    Map,
}

/// A choice between attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// One of them must be set.
    pub required: bool,
    pub branches: Vec<String>,
}

impl Object {
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    pub fn by_json(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.json.as_deref() == Some(name))
    }

    /// The type of its values.
    pub fn r#type(&self) -> Type {
        let each = self.attributes.iter();
        Type::Object(each.map(|attribute| (attribute.name.clone(), attribute.r#type())).collect())
    }

    /// A value with these attributes and no others.
    pub fn value(&self, mut of: impl FnMut(&Attribute) -> Value) -> Value {
        let each = self.attributes.iter();
        Value::Map(each.map(|a| (a.name.clone(), of(a))).collect::<BTreeMap<_, _>>())
    }
}

impl Attribute {
    pub fn r#type(&self) -> Type {
        match &self.shape {
            Shape::Plain(r#type, _) => r#type.clone(),
            Shape::Nested(Nesting::Single, object) => object.r#type(),
            Shape::Nested(Nesting::List, object) => Type::list(object.r#type()),
            Shape::Nested(Nesting::Keyed { .. }, object) => Type::set(object.r#type()),
            Shape::Nested(Nesting::Map, object) => Type::map(object.r#type()),
        }
    }

    /// Whether nobody but the server sets it.
    pub fn is_computed(&self) -> bool {
        matches!(self.mode, Mode::Computed { .. })
    }
}
