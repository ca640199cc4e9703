//! Kinds from descriptors: everything that can be said about a resource without storing it.
//!
//! A kind is one protobuf message with our options on it. This crate reads the descriptors and
//! gives the rest of the system one vocabulary:
//!
//! ```text
//!   descriptors ----> Scheme ----> Kind (names, schema, rules, columns)
//!                                    |
//!   JSON, YAML, protobuf  <---->  Object  ----> default, validate, convert, select, table
//! ```
//!
//! Owns: the [`Scheme`] and its registration, [`Object`], the [`Record`]s in it and its three codecs, manifests with the
//! place of every field, defaults, validation, conversion between versions, selectors, table
//! cells and the comments that `explain` prints.
//!
//! Not in it: storage, transports, time and tasks. It is pure and synchronous; `now` is an
//! argument. Rules of one kind that options cannot express are registered by the crate that acts
//! on that kind.

mod artifacts;
mod convert;
mod defaults;
mod docs;
mod json;
mod kind;
mod lookup;
mod manifest;
mod object;
pub mod openapi;
mod path;
mod record;
mod schema;
mod scheme;
mod select;
mod sharing;
mod suggest;
mod table;
mod validate;
mod version;
mod violation;

pub use artifacts::named_artifacts;
pub use convert::{ConvertError, Convertor, REST_ANNOTATION, Spoke, keep_rest, take_rest};
pub use defaults::default;
pub use docs::{field_doc, message_doc};
pub use json::{
    DecodeError, DecodeOptions, JSON_BYTES_MAX, JSON_DEPTH_MAX, JsonOptions, ProjectKey,
    UnknownFields, WIRE_DEPTH_MAX, parse_json, parse_json_noting, same_json,
};
pub use kind::{Column, ColumnType, Defaulter, Kind, Validator};
pub use manifest::{
    FILE_BYTES_MAX, Manifest, ManifestError, ManifestErrors, NODES_MAX, Position, parse_manifests,
    value_to_yaml,
};
pub use object::{
    Composed, Decoded, Encoded, Form, LINEAGE, Object, ObjectError, ObjectList, OnlyManager,
};
pub use record::{Key, Malformed, Map, Record, Value, within};
pub use schema::{
    Element, FieldSchema, MessageId, MessageSchema, OneofSchema, Scalar, Schema, Shape, WellKnown,
};
pub use scheme::{
    DEFAULT_GROUP_SUFFIX, ReadError, RegistrationError, ResolveError, SYSTEM_PROJECT, Scheme,
    SchemeBuilder, SchemeError,
};
pub use select::{FieldSelector, LabelSelector, SelectorError, same_terms, terms};
pub use sharing::{
    EVERY_PROJECT, SHARED_FROM, Shared, seen_by, shared, shared_name_term, shared_term,
};
pub use table::{Cell, age, human_duration, table_cells};
pub use validate::{is_label_value, is_name, is_qualified_name, validate, validate_status};
pub use violation::{PROBLEMS_MAX, Reason, Violation};

/// Identity of a resource and what the server knows about it.
pub use orrery_proto::meta::v1::{Condition, ListMeta, ObjectMeta};
/// Which other projects may read a resource.
pub use orrery_proto::meta::v1::{SharedProject, Sharing};
/// Which fields of a kind say how many copies there should be and are.
pub use orrery_proto::options::v1::Scale as ScaleFields;
