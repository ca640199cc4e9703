//! JSON Patch (RFC 6902): a list of operations, all of which apply or none.
use serde_json::Value;

/// Most operations in one patch, as in the reference.
const OPERATIONS_MAX: usize = 10_000;
/// What `copy` may add in all, so that a short patch cannot make a huge object.
const COPIED_BYTES_MAX: usize = orrery_api::JSON_BYTES_MAX;

/// A patch that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is no patch at all.
    #[error("{0}")]
    Malformed(String),
    /// It is a patch, and this object is not as it expects.
    #[error("{0}")]
    DoesNotApply(String),
}

#[derive(Clone, Debug, PartialEq)]
struct Operation {
    action: Action,
    path: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Add(Value),
    Remove,
    Replace(Value),
    Move { from: Vec<String> },
    Copy { from: Vec<String> },
    Test(Value),
}

/// A list of operations.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch(Vec<Operation>);

impl JsonPatch {
    pub fn parse(value: &Value) -> Result<Self, PatchError> {
        let malformed = |problem: String| PatchError::Malformed(problem);
        let items = value
            .as_array()
            .ok_or_else(|| malformed("a JSON patch is a list of operations".into()))?;
        if OPERATIONS_MAX < items.len() {
            let (found, most) = (items.len(), OPERATIONS_MAX);
            return Err(malformed(format!("{found} operations are too many, the limit is {most}")));
        }
        let read = |(index, item)| {
            operation(item).map_err(|problem| malformed(format!("operation {index}: {problem}")))
        };
        items.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    pub fn apply(&self, mut document: Value) -> Result<Value, PatchError> {
        let mut copied = 0;
        for (index, operation) in self.0.iter().enumerate() {
            operation.apply(&mut document, &mut copied).map_err(|problem| {
                PatchError::DoesNotApply(format!("operation {index} does not apply: {problem}"))
            })?;
        }
        Ok(document)
    }
}

fn operation(item: &Value) -> Result<Operation, String> {
    let text = |key: &str| {
        let found = item.get(key).and_then(Value::as_str);
        found.ok_or_else(|| format!("{key:?} is missing or no string"))
    };
    let value = || item.get("value").cloned().ok_or_else(|| "\"value\" is missing".to_owned());
    let action = match text("op")? {
        "add" => Action::Add(value()?),
        "remove" => Action::Remove,
        "replace" => Action::Replace(value()?),
        "move" => Action::Move { from: pointer(text("from")?)? },
        "copy" => Action::Copy { from: pointer(text("from")?)? },
        "test" => Action::Test(value()?),
        other => return Err(format!("there is no operation {other:?}")),
    };
    Ok(Operation { action, path: pointer(text("path")?)? })
}

/// The steps of a JSON pointer.
fn pointer(text: &str) -> Result<Vec<String>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let steps =
        text.strip_prefix('/').ok_or_else(|| format!("{text:?} must begin with a slash"))?;
    Ok(steps.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect())
}

impl Operation {
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        match &self.action {
            Action::Add(value) => add(document, &self.path, value.clone()),
            Action::Remove => remove(document, &self.path).map(|_| ()),
            Action::Replace(value) => {
                *find_mut(document, &self.path)? = value.clone();
                Ok(())
            }
            Action::Move { from } => {
                if self.path.starts_with(from) && self.path != *from {
                    return Err(format!("{} cannot move into itself", show(from)));
                }
                let value = remove(document, from)?;
                add(document, &self.path, value)
            }
            Action::Copy { from } => {
                let value = find_mut(document, from)?.clone();
                *copied += value.to_string().len();
                if COPIED_BYTES_MAX < *copied {
                    return Err(format!("more than {COPIED_BYTES_MAX} bytes would be copied"));
                }
                add(document, &self.path, value)
            }
            Action::Test(expected) => {
                let found = find_mut(document, &self.path)?;
                if same(found, expected) {
                    return Ok(());
                }
                Err(format!("{} is not what the test expects", show(&self.path)))
            }
        }
    }
}

/// Equal as JSON: the order of fields has no meaning, and 1 is 1.0.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let equal =
                |(key, value): (&String, &Value)| b.get(key).is_some_and(|b| same(value, b));
            a.len() == b.len() && a.iter().all(equal)
        }
        (a, b) => a == b,
    }
}

fn show(path: &[String]) -> String {
    if path.is_empty() { "the whole object".to_owned() } else { format!("/{}", path.join("/")) }
}

fn find_mut<'a>(document: &'a mut Value, path: &[String]) -> Result<&'a mut Value, String> {
    let mut at = document;
    for (depth, step) in path.iter().enumerate() {
        let absent = || format!("{} is not there", show(&path[..=depth]));
        at = match at {
            Value::Object(fields) => fields.get_mut(step).ok_or_else(absent)?,
            Value::Array(items) => {
                let index = index(step, items.len())?;
                items.get_mut(index).ok_or_else(absent)?
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(absent());
            }
        };
    }
    Ok(at)
}

fn add(document: &mut Value, path: &[String], value: Value) -> Result<(), String> {
    let Some((last, parent)) = path.split_last() else {
        *document = value;
        return Ok(());
    };
    match find_mut(document, parent)? {
        Value::Object(fields) => {
            fields.insert(last.clone(), value);
            Ok(())
        }
        Value::Array(items) => {
            let at = if last == "-" { items.len() } else { index(last, items.len())? };
            if items.len() < at {
                return Err(format!("{} is beyond the end of the list", show(path)));
            }
            items.insert(at, value);
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            Err(format!("{} holds nothing", show(parent)))
        }
    }
}

fn remove(document: &mut Value, path: &[String]) -> Result<Value, String> {
    let absent = || format!("{} is not there", show(path));
    let Some((last, parent)) = path.split_last() else {
        return Ok(document.take());
    };
    match find_mut(document, parent)? {
        Value::Object(fields) => fields.shift_remove(last).ok_or_else(absent),
        Value::Array(items) => {
            let at = index(last, items.len())?;
            if items.len() <= at {
                return Err(absent());
            }
            Ok(items.remove(at))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Err(absent()),
    }
}

/// A place in a list: digits without leading zeros.
fn index(step: &str, length: usize) -> Result<usize, String> {
    let plain = step == "0" || !step.starts_with('0');
    let digits = step.bytes().all(|byte| byte.is_ascii_digit());
    match step.parse() {
        Ok(index) if plain && digits => Ok(index),
        Ok(_) | Err(_) => Err(format!("{step:?} is no place in a list of {length}")),
    }
}

#[cfg(test)]
#[path = "tests/jsonpatch.rs"]
mod tests;
