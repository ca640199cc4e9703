//! Conditions of any kind that has them.
use prost::Message as _;

use super::{Object, ObjectError};
use crate::{
    Condition, Kind,
    record::{self, Value},
    schema::{Element, MessageId, Shape},
};

/// Where a status keeps its conditions, and what the schema calls one.
fn place(kind: &Kind) -> Option<(u32, MessageId)> {
    let field = kind.schema.field("status.conditions")?;
    match field.shape {
        Shape::List(Element::Message(item)) => Some((field.number, item)),
        _ => None,
    }
}

impl Object {
    /// The conditions of the status; `None` if the kind has none.
    pub fn conditions(&self) -> Option<Vec<Condition>> {
        let (number, item) = place(&self.kind)?;
        let said = self.status().and_then(|status| status.get(number)?.as_list());
        let read = |one: &Value| {
            let bytes = record::encode(&self.kind.schema, item, one.as_record()?);
            // The bytes were just written from the same definition, so they can be read.
            Condition::decode(bytes.as_slice()).ok()
        };
        Some(said.unwrap_or_default().iter().filter_map(read).collect())
    }

    /// Replaces the conditions; refused by a kind that has none.
    pub fn set_conditions(&mut self, conditions: &[Condition]) -> Result<(), ObjectError> {
        let other = || ObjectError::OtherType {
            expected: format!("status of {}", self.kind.kind()),
            found: "list of conditions".to_owned(),
        };
        let (number, item) = place(&self.kind).ok_or_else(other)?;
        let read = |one: &Condition| record::decode(&self.kind.schema, item, &one.encode_to_vec());
        let items = conditions.iter().map(|one| read(one).map(Value::Record));
        let items = items.collect::<Result<_, _>>().map_err(|_| other())?;
        let status = self.kind.numbers.status.ok_or_else(other)?;
        self.record.record_mut(status).put(number, Value::List(items));
        Ok(())
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
