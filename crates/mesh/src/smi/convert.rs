//! An older version and the stored one, there and back without loss.
//!
//! ```text
//!   show:  stored ──the fields that the older version has──> older
//!   lay:   older ──laid over what is stored or was kept──> stored
//! ```
//! What the older version cannot say goes along in an annotation of it ([`keep_rest`]). What only the
//! older version can say (that a weight was written as `1000m`) stays as it was written, in an
//! annotation of the stored object, for as long as it still means the same.
use super::quantity;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_api::{ConvertError, Convertor, Kind, Object, Violation, keep_rest, take_rest};
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind as ProtoKind, ReflectMessage as _, Value,
};
use std::sync::Arc;

/// Where a stored object keeps how a version wrote it; the version follows.
const WRITTEN: &str = "conversion.orrery.dev/written-";
/// Fields that every kind has and that are no part of its body.
const COMMON: [&str; 5] = ["api_version", "kind", "metadata", "status", "spec"];
/// By one of these, items of a list are the same item in two versions.
const KEYS: [&str; 2] = ["name", "service"];

/// How the shape of a version differs from the stored one.
#[derive(Clone, Copy, Debug)]
pub struct Reshape {
    /// Its fields stand at the top, not in a spec.
    pub top_level: bool,
    /// Fields by the name they have there and the stored one.
    pub renamed: &'static [(&'static str, &'static str)],
}

impl Reshape {
    pub const SPEC: Self = Self { top_level: false, renamed: &[] };
    pub const TOP: Self = Self { top_level: true, renamed: &[] };
}

impl Convertor for Reshape {
    fn to_hub(&self, hub: &Arc<Kind>, parts: &[Object]) -> Result<Object, ConvertError> {
        let spoke = parts.first().ok_or_else(|| missing(hub))?;
        let mut object = take_rest(hub, spoke)?;
        self.lay_object(&mut object, spoke)?;
        object.share_status_of(spoke)?;
        let written = bare(spoke);
        if bare(&self.show_object(&object, spoke.kind())?) != written {
            let text = STANDARD.encode(written.encode());
            object.set_annotation(&written_key(spoke.kind()), &text);
        }
        Ok(object)
    }

    fn from_hub(&self, hub: &Object, parts: &[Arc<Kind>]) -> Result<Vec<Object>, ConvertError> {
        let kind = parts.first().ok_or_else(|| missing(hub.kind()))?;
        let mut spoke = match self.written(hub, kind) {
            Some(written) => written,
            None => self.show_object(hub, kind)?,
        };
        spoke.copy_metadata_from(hub)?;
        spoke.remove_annotation(&written_key(kind));
        spoke.share_status_of(hub)?;
        let mut again = Object::new(hub.kind());
        self.lay_object(&mut again, &spoke)?;
        if bare(&again) != bare(hub) {
            keep_rest(&mut spoke, bare(hub));
        }
        Ok(vec![spoke])
    }
}

impl Reshape {
    /// The object as it was written, if that still means what is stored.
    fn written(&self, hub: &Object, kind: &Arc<Kind>) -> Option<Object> {
        let bytes = STANDARD.decode(hub.annotation(&written_key(kind))?).ok()?;
        let written = Object::decode(kind, &bytes).ok()?;
        let mut laid = hub.clone();
        self.lay_object(&mut laid, &written).ok()?;
        (laid == *hub).then_some(written)
    }

    fn show_object(&self, hub: &Object, kind: &Arc<Kind>) -> Result<Object, ConvertError> {
        let mut spoke = Object::new(kind);
        let hub = hub.to_message();
        let Some(spec) = body(&hub) else { return Ok(spoke) };
        spoke.edit_message(|message| {
            if self.top_level {
                self.show(&spec, message);
            } else if let Some(body) = body_mut(message) {
                self.show(&spec, body);
            }
        });
        Ok(spoke)
    }

    /// Lays what the spoke says over a stored object, which has a spec afterwards.
    fn lay_object(&self, hub: &mut Object, spoke: &Object) -> Result<(), ConvertError> {
        let mut spoke = spoke.to_message();
        let (source, path) = match self.top_level {
            true => (Some(&spoke), ""),
            // One that is absent says as much as an empty one.
            false => (body_mut(&mut spoke).map(|body| &*body), "spec"),
        };
        let Some(source) = source else { return Ok(()) };
        let laid = hub.edit_message(|message| match body_mut(message) {
            Some(target) => self.lay(target, source, path),
            None => Ok(()),
        });
        laid.map_err(|found| ConvertError::Invalid(vec![found]))
    }

    /// Fills a message of the older version with what it can say.
    fn show(&self, hub: &DynamicMessage, spoke: &mut DynamicMessage) {
        for (field, stored) in self.pairs(hub, spoke) {
            if hub.has_field(&stored) {
                let value = hub.get_field(&stored);
                spoke.set_field(&field, self.show_value(&value, &field));
            }
        }
    }

    fn show_value(&self, value: &Value, field: &FieldDescriptor) -> Value {
        match (value, field.kind()) {
            (Value::List(items), _) => {
                Value::List(items.iter().map(|item| self.show_value(item, field)).collect())
            }
            (Value::Message(inner), ProtoKind::Message(shape)) if inner.descriptor() != shape => {
                let mut shown = DynamicMessage::new(shape);
                self.show(inner, &mut shown);
                Value::Message(shown)
            }
            (Value::I32(_) | Value::I64(_), ProtoKind::Message(shape)) => {
                loose(value, field, DynamicMessage::new(shape))
            }
            (same, _) => same.clone(),
        }
    }

    /// Sets in `hub` what `spoke` can say, and leaves the rest of it.
    fn lay(
        &self,
        hub: &mut DynamicMessage,
        spoke: &DynamicMessage,
        path: &str,
    ) -> Result<(), Violation> {
        for (field, stored) in self.pairs(hub, spoke) {
            if !spoke.has_field(&field) {
                hub.clear_field(&stored);
                continue;
            }
            let place = join(path, field.json_name());
            let value = spoke.get_field(&field);
            let kept = hub.get_field(&stored).into_owned();
            let laid = match (&*value, kept) {
                (Value::List(items), Value::List(kept)) => {
                    self.lay_list(items, kept, &field, &stored, &place)?
                }
                (one, kept) => self.lay_value(one, Some(kept), &stored, &place)?,
            };
            hub.set_field(&stored, laid);
        }
        Ok(())
    }

    fn lay_list(
        &self,
        items: &[Value],
        kept: Vec<Value>,
        field: &FieldDescriptor,
        stored: &FieldDescriptor,
        path: &str,
    ) -> Result<Value, Violation> {
        let mut kept: Vec<Option<Value>> = kept.into_iter().map(Some).collect();
        // Those that did not change first: each keeps what the version cannot say of it.
        let exact: Vec<Option<Value>> = items
            .iter()
            .map(|item| take(&mut kept, |one| self.show_value(one, field) == *item))
            .collect();
        let mut laid = Vec::with_capacity(items.len());
        for (index, (item, exact)) in items.iter().zip(exact).enumerate() {
            let before = exact.or_else(|| take(&mut kept, |one| is_same_item(one, item)));
            laid.push(self.lay_value(item, before, stored, &format!("{path}[{index}]"))?);
        }
        Ok(Value::List(laid))
    }

    fn lay_value(
        &self,
        value: &Value,
        kept: Option<Value>,
        stored: &FieldDescriptor,
        path: &str,
    ) -> Result<Value, Violation> {
        match (value, stored.kind()) {
            (Value::Message(inner), ProtoKind::Message(shape)) if inner.descriptor() != shape => {
                let mut message = match kept {
                    Some(Value::Message(kept)) => kept,
                    Some(_) | None => DynamicMessage::new(shape),
                };
                self.lay(&mut message, inner, path)?;
                Ok(Value::Message(message))
            }
            (Value::Message(inner), ProtoKind::Int32 | ProtoKind::Int64) => {
                strict(inner, stored, path)
            }
            (same, _) => Ok(same.clone()),
        }
    }

    /// The fields that both have, by their names there and here.
    fn pairs(
        &self,
        hub: &DynamicMessage,
        spoke: &DynamicMessage,
    ) -> Vec<(FieldDescriptor, FieldDescriptor)> {
        let (hub, spoke) = (hub.descriptor(), spoke.descriptor());
        let is_kind = spoke.get_field_by_name("api_version").is_some();
        let fields = spoke.fields().filter(|field| !is_kind || !COMMON.contains(&field.name()));
        let stored = |field: &FieldDescriptor| {
            let renamed = self.renamed.iter().find(|(there, _)| *there == field.name());
            hub.get_field_by_name(renamed.map_or(field.name(), |(_, here)| here))
        };
        fields.filter_map(|field| stored(&field).map(|stored| (field, stored))).collect()
    }
}

/// A number as the older version writes it: weights as quantities, ports as text.
fn loose(value: &Value, field: &FieldDescriptor, mut shown: DynamicMessage) -> Value {
    let number = value.as_i64().or_else(|| value.as_i32().map(i64::from)).unwrap_or_default();
    let text = match field.name() {
        "weight" => quantity::format(u64::try_from(number).unwrap_or_default()),
        _ => number.to_string(),
    };
    shown.set_field_by_name("string_value", Value::String(text));
    Value::Message(shown)
}

/// The number that a loosely written value means.
fn strict(
    value: &DynamicMessage,
    stored: &FieldDescriptor,
    path: &str,
) -> Result<Value, Violation> {
    let written: prost_types::Value = value.transcode_to().unwrap_or_default();
    let text = match written.kind {
        Some(prost_types::value::Kind::StringValue(text)) => text,
        Some(prost_types::value::Kind::NumberValue(number)) => number.to_string(),
        other => {
            let given = format!("{other:?}");
            return Err(Violation::invalid(path, given, "must be a number or a text"));
        }
    };
    let weight = || quantity::parse(&text).and_then(|milli| i64::try_from(milli).ok());
    let (number, why) = match stored.name() {
        "weight" => (weight(), "must be a quantity such as 1 or \"500m\", up to 4294967"),
        _ => (text.parse::<u16>().ok().map(i64::from), "must be the number of a port"),
    };
    let number = number.ok_or_else(|| Violation::invalid(path, format!("{text:?}"), why))?;
    Ok(match stored.kind() {
        ProtoKind::Int32 => Value::I32(i32::try_from(number).unwrap_or(i32::MAX)),
        _ => Value::I64(number),
    })
}

fn is_same_item(one: &Value, other: &Value) -> bool {
    let key = |value: &Value| {
        let message = value.as_message()?;
        let field = KEYS.iter().find_map(|key| message.descriptor().get_field_by_name(key))?;
        message.has_field(&field).then(|| message.get_field(&field).into_owned())
    };
    key(one).is_some() && key(one) == key(other)
}

/// The first that is still there and meets the condition.
fn take(kept: &mut [Option<Value>], is_meant: impl Fn(&Value) -> bool) -> Option<Value> {
    kept.iter_mut().find(|one| one.as_ref().is_some_and(&is_meant)).and_then(Option::take)
}

fn body(message: &DynamicMessage) -> Option<DynamicMessage> {
    let field = message.descriptor().get_field_by_name("spec")?;
    message.has_field(&field).then(|| message.get_field(&field).as_message().cloned())?
}

fn body_mut(message: &mut DynamicMessage) -> Option<&mut DynamicMessage> {
    message.get_field_by_name_mut("spec").and_then(Value::as_message_mut)
}

fn bare(object: &Object) -> Object {
    let mut bare = object.clone();
    bare.clear_metadata();
    bare.clear_status();
    bare
}

fn written_key(kind: &Kind) -> String {
    format!("{WRITTEN}{}", kind.version())
}

fn missing(hub: &Kind) -> ConvertError {
    ConvertError::MissingPart { part: hub.kind().to_owned(), of: hub.qualified_plural() }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}
