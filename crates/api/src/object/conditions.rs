//! Conditions of any kind that has them.
use prost_reflect::{DynamicMessage, FieldDescriptor, MessageDescriptor, Value};

use super::{Object, ObjectError};
use crate::{Condition, Kind};

/// Where a kind keeps its conditions.
struct Place {
    status: MessageDescriptor,
    field: FieldDescriptor,
    item: MessageDescriptor,
}

fn place(kind: &Kind) -> Option<Place> {
    let status = kind.fields.status.as_ref()?.kind().as_message()?.clone();
    let field = status.get_field_by_name("conditions").filter(FieldDescriptor::is_list)?;
    let item = field.kind().as_message()?.clone();
    Some(Place { status, field, item })
}

impl Object {
    /// The conditions of the status; `None` if the kind has none.
    pub fn conditions(&self) -> Option<Vec<Condition>> {
        let place = place(&self.kind)?;
        let Some(status) = self.status() else { return Some(Vec::new()) };
        let conditions = status.get_field(&place.field);
        let items = conditions.as_list()?.iter().filter_map(Value::as_message);
        // The bytes were just written from the same definition, so they can be read.
        Some(items.filter_map(|item| item.transcode_to().ok()).collect())
    }

    /// Replaces the conditions; refused by a kind that has none.
    pub fn set_conditions(&mut self, conditions: &[Condition]) -> Result<(), ObjectError> {
        let other = || ObjectError::OtherType {
            expected: format!("status of {}", self.kind.kind()),
            found: "list of conditions".to_owned(),
        };
        let Place { status, field, item } = place(&self.kind).ok_or_else(other)?;
        let message = |condition| {
            let mut message = DynamicMessage::new(item.clone());
            message.transcode_from(condition).map(|()| Value::Message(message))
        };
        let items = conditions.iter().map(message).collect::<Result<_, _>>();
        let items = items.map_err(|_| other())?;
        let mut status = self.status().cloned().unwrap_or_else(|| DynamicMessage::new(status));
        status.set_field(&field, Value::List(items));
        self.set_status(status)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Condition, Object, Scheme};

    fn object(kind: &str) -> Object {
        Object::new(&Scheme::builtin().expect("our kinds").resolve("", kind).expect("it is one"))
    }

    #[test]
    fn kinds_that_have_conditions_keep_them() {
        let mut workload = object("Workload");
        assert_eq!(workload.conditions(), Some(Vec::new()));
        let ready = Condition {
            r#type: "Ready".into(),
            status: "True".into(),
            observed_generation: 3,
            ..Condition::default()
        };
        workload.set_conditions(std::slice::from_ref(&ready)).expect("it has some");
        assert_eq!(workload.conditions(), Some(vec![ready]));
    }

    #[test]
    fn other_kinds_refuse_them() {
        let mut secret = object("Secret");
        assert_eq!(secret.conditions(), None);
        let error = secret.set_conditions(&[]).expect_err("it has none");
        assert_eq!(error.to_string(), "a list of conditions is not a status of Secret");
    }
}
