//! Headers of a match. The published schema has a list of objects and the published types an object;
//! people have both in their files, so both are read.
use prost_types::value::Kind;
use std::collections::BTreeMap;

/// Names with the expressions for their values; `None` where it is neither form.
pub fn headers(value: &prost_types::Value) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    match value.kind.as_ref()? {
        Kind::NullValue(_) => {}
        Kind::StructValue(fields) => take(fields, &mut found)?,
        Kind::ListValue(list) => {
            for one in &list.values {
                let Some(Kind::StructValue(fields)) = &one.kind else { return None };
                take(fields, &mut found)?;
            }
        }
        Kind::NumberValue(_) | Kind::StringValue(_) | Kind::BoolValue(_) => return None,
    }
    Some(found)
}

fn take(fields: &prost_types::Struct, found: &mut BTreeMap<String, String>) -> Option<()> {
    for (name, value) in &fields.fields {
        let Some(Kind::StringValue(regex)) = &value.kind else { return None };
        found.insert(name.clone(), regex.clone());
    }
    Some(())
}
