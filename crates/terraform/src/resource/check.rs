//! What is wrong with a configuration, before anything is asked of the server.
use super::declare::object_json;
use super::path::{Path, of_violation};
use crate::schema::{Nesting, Object, ResourceType, Shape};
use crate::value::Value;
use orrery_api::{DecodeError, DecodeOptions, Violation};
use serde_json::json;

/// Stands for the project of a resource that names none.
const UNNAMED_PROJECT: &str = "default";

/// Something that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: Path,
    pub summary: String,
    pub detail: String,
}

/// Everything that the definition of the kind finds wrong. What is not known yet is not judged.
pub fn check(of: &ResourceType, config: &Value) -> Vec<Problem> {
    let object = of.object();
    let mut found = Found::default();
    let chosen = found.walk(object, config, &Path::default());
    let mut json = object_json(object, &chosen);
    json["apiVersion"] = json!(of.kind.api_version());
    json["kind"] = json!(of.kind.kind());
    // Which project it is that nobody names is the provider's to say.
    if !of.kind.cluster_scoped() && json["metadata"]["project"].is_null() {
        json["metadata"]["project"] = json!(UNNAMED_PROJECT);
    }
    let judged = orrery_api::Object::from_json_value(&of.kind, &json, &DecodeOptions::default());
    let violations = match judged {
        Ok(decoded) => orrery_api::validate(&decoded.object, None),
        Err(DecodeError::Invalid(violations)) => violations,
        Err(other) => vec![Violation::new("", orrery_api::Reason::Invalid, other.to_string())],
    };
    for violation in violations {
        let path = of_violation(object, &violation.path);
        let open = |unknown: &Path| path.is_within(unknown) || unknown.is_within(&path);
        if !found.unknown.iter().any(open) {
            found.problems.push(Problem {
                path,
                summary: format!("{} is not valid", of.kind.kind()),
                detail: format!("{}: {}", violation.path, violation.message),
            });
        }
    }
    found.problems
}

#[derive(Default)]
struct Found {
    problems: Vec<Problem>,
    /// What is not known yet, and so may still be right.
    unknown: Vec<Path>,
}

impl Found {
    /// Looks for choices that were made twice, and returns the value with the first branch of each alone.
    fn walk(&mut self, object: &Object, value: &Value, path: &Path) -> Value {
        let mut left = value.as_map().cloned().unwrap_or_default();
        for choice in &object.choices {
            let set = choice.branches.iter().filter(|name| !value.get(name).is_null());
            let known: Vec<&String> = set.filter(|name| !value.get(name).is_unknown()).collect();
            for second in known.iter().skip(1) {
                self.problems.push(Problem {
                    path: path.attribute(second),
                    summary: "Only one of these can be set".to_owned(),
                    detail: format!(
                        "{second:?} cannot be set beside {:?}: set one of {}.",
                        known[0],
                        choice.branches.join(", ")
                    ),
                });
                left.insert((*second).clone(), Value::Null);
            }
        }
        for attribute in &object.attributes {
            let inner = path.attribute(&attribute.name);
            let Some(value) = left.get_mut(&attribute.name) else { continue };
            if value.is_unknown() {
                self.unknown.push(inner);
            } else if let Shape::Nested(nesting, object) = &attribute.shape {
                *value = self.nested(nesting, object, value, &inner);
            } else if value.has_unknowns() {
                self.unknown.push(inner);
            }
        }
        Value::Map(left)
    }

    fn nested(&mut self, nesting: &Nesting, object: &Object, value: &Value, path: &Path) -> Value {
        match (nesting, value) {
            (Nesting::Single, Value::Map(_)) => self.walk(object, value, path),
            (Nesting::List, Value::List(items)) => {
                let items = items.iter().enumerate();
                Value::List(
                    items.map(|(at, item)| self.item(object, item, &path.index(at))).collect(),
                )
            }
            // Items of a set have no place; what is wrong with one is said of the set.
            (Nesting::Keyed { .. }, Value::List(items)) => {
                let start = self.problems.len();
                let unknown = self.unknown.len();
                let items = items.iter().map(|item| self.item(object, item, path)).collect();
                self.problems[start..].iter_mut().for_each(|problem| problem.path = path.clone());
                if unknown < self.unknown.len() {
                    self.unknown.truncate(unknown);
                    self.unknown.push(path.clone());
                }
                Value::List(items)
            }
            (Nesting::Map, Value::Map(entries)) => {
                let each = entries.iter();
                let each =
                    each.map(|(key, item)| (key.clone(), self.item(object, item, &path.key(key))));
                Value::Map(each.collect())
            }
            (_, other) => other.clone(),
        }
    }

    fn item(&mut self, object: &Object, item: &Value, path: &Path) -> Value {
        if item.is_unknown() {
            self.unknown.push(path.clone());
            return Value::Null;
        }
        self.walk(object, item, path)
    }
}
