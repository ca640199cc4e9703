//! Reads values at a path of a record without turning it into JSON.
use crate::{
    record::{Record, Value},
    schema::{Element, Schema, Shape},
};

/// One field on the way to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub number: u32,
    /// Whether its absence says that it has its zero value.
    pub zero_when_absent: bool,
}

/// The fields along a dotted JSON path, when every field but the last is a single message.
pub(crate) fn steps(schema: &Schema, path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut message = Some(schema.root());
    for name in path.split('.') {
        let field = message?.field_by_json_name(name)?;
        let single = matches!(field.shape, Shape::Single(_));
        steps.push(Step { number: field.number, zero_when_absent: single && !field.presence });
        message = match field.shape {
            Shape::Single(Element::Message(id)) => Some(schema.message(id)),
            Shape::Single(_) | Shape::List(_) | Shape::Map { .. } => None,
        };
    }
    Some(steps)
}

/// The value at the end of `steps`; `None` as soon as something on the way is absent.
pub(crate) fn follow<'a>(root: &'a Record, steps: &[Step]) -> Option<&'a Value> {
    let (last, way) = steps.split_last()?;
    let mut record = root;
    for step in way {
        record = record.record(step.number)?;
    }
    record.get(last.number)
}
