//! What an apply will make of a resource.
use super::path::Path;
use crate::schema::{Attribute, Mode, Nesting, Object, Shape};
use crate::value::Value;
use serde_json::Value as Json;

/// A planned state.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    pub state: Value,
    /// What can only be had with a new resource.
    pub replaces: Vec<Path>,
}

/// Plans a resource from its configuration. `prior` is null for a new one, and `owned` is what the configuration of
/// the last apply set. `project` is where resources go that do not say so, when that is known.
pub fn plan(
    object: &Object,
    config: &Value,
    prior: &Value,
    owned: &Json,
    project: Option<&str>,
) -> Planned {
    let project = project.map_or(Value::UNKNOWN, Value::text);
    let planner = Planner { project };
    let mut state = planner.object(object, config, prior, owned);
    let mut replaces = Vec::new();
    if !prior.is_null() {
        immutable(object, &state, prior, &Path::default(), &mut replaces);
    }
    // Another object has another identity.
    let (whole, none) = (&state, Value::Null);
    let prior = if replaces.is_empty() { prior } else { &none };
    let changes = differs(object, whole, prior);
    state = computed(object, &state, prior, changes);
    Planned { state, replaces }
}

struct Planner {
    project: Value,
}

impl Planner {
    fn object(&self, object: &Object, config: &Value, prior: &Value, owned: &Json) -> Value {
        object.value(|attribute| {
            let name = attribute.name.as_str();
            self.attribute(attribute, config.get(name), prior.get(name), &owned[name])
        })
    }

    fn attribute(
        &self,
        attribute: &Attribute,
        config: &Value,
        prior: &Value,
        owned: &Json,
    ) -> Value {
        match (&attribute.mode, config) {
            (Mode::Computed { .. }, _) => prior.clone(),
            (Mode::Required | Mode::Optional, Value::Null) => Value::Null,
            (Mode::Chosen, Value::Null) if prior.is_null() => self.project.clone(),
            (Mode::Chosen, Value::Null) => prior.clone(),
            (Mode::Defaulted(default), Value::Null) => match (prior, owned.is_null()) {
                (Value::Null, _) => default.clone(),
                (prior, true) => prior.clone(),
                (_, false) if attribute.immutable => default.clone(),
                // The default, unless somebody else wants something too.
                (_, false) => Value::UNKNOWN,
            },
            (_, Value::Unknown(_)) => config.clone(),
            (_, config) => match &attribute.shape {
                Shape::Plain(_, _) => config.clone(),
                Shape::Nested(nesting, object) => {
                    self.nested(nesting, object, config, prior, owned)
                }
            },
        }
    }

    fn nested(
        &self,
        nesting: &Nesting,
        object: &Object,
        config: &Value,
        prior: &Value,
        owned: &Json,
    ) -> Value {
        match nesting {
            Nesting::Single => self.object(object, config, prior, owned),
            Nesting::List => {
                let items = config.as_list().unwrap_or_default().iter();
                Value::List(
                    items.map(|item| self.item(object, item, &Value::Null, &Json::Null)).collect(),
                )
            }
            Nesting::Keyed { key } => {
                let items = config.as_list().unwrap_or_default().iter();
                let items = items.map(|item| {
                    let name = item.get(key);
                    let tree = name.as_str().map_or(&Json::Null, |name| &owned[name]);
                    self.item(object, item, item_of(prior, key, name), tree)
                });
                Value::set(items.collect())
            }
            Nesting::Map => {
                let items = config.as_map().into_iter().flatten();
                let items = items.map(|(key, item)| {
                    (key.clone(), self.item(object, item, prior.get(key), &owned[key]))
                });
                Value::Map(items.collect())
            }
        }
    }

    fn item(&self, object: &Object, config: &Value, prior: &Value, owned: &Json) -> Value {
        match config {
            Value::Null | Value::Unknown(_) => config.clone(),
            config => self.object(object, config, prior, owned),
        }
    }
}

/// The item of a keyed list with this key; null where there is none.
pub(super) fn item_of<'a>(items: &'a Value, key: &str, wanted: &Value) -> &'a Value {
    let items = items.as_list().unwrap_or_default();
    let found = items.iter().find(|item| !wanted.is_null() && item.get(key) == wanted);
    found.unwrap_or(&Value::Null)
}

/// What must not change and does.
fn immutable(object: &Object, planned: &Value, prior: &Value, path: &Path, found: &mut Vec<Path>) {
    for attribute in &object.attributes {
        let (new, old) = (planned.get(&attribute.name), prior.get(&attribute.name));
        let path = path.attribute(&attribute.name);
        if attribute.immutable && !attribute.is_computed() {
            if !old.is_null() && new != old {
                found.push(path);
            }
            continue;
        }
        let Shape::Nested(nesting, object) = &attribute.shape else { continue };
        match nesting {
            Nesting::Single => immutable(object, new, old, &path, found),
            // A list is replaced as a whole, and its items are new ones.
            Nesting::List => {}
            Nesting::Map => {
                for (key, new) in new.as_map().into_iter().flatten() {
                    immutable(object, new, old.get(key), &path.key(key), found);
                }
            }
            Nesting::Keyed { key } => {
                let mut inner = Vec::new();
                for item in new.as_list().unwrap_or_default() {
                    immutable(object, item, item_of(old, key, item.get(key)), &path, &mut inner);
                }
                // Items of a set have no place of their own.
                found.extend((!inner.is_empty()).then_some(path));
            }
        }
    }
}

/// Whether there will be an apply. Even one that only the provider's own words differ in asks the server, and what
/// it then says may have changed since.
fn differs(object: &Object, planned: &Value, prior: &Value) -> bool {
    prior.is_null()
        || object.attributes.iter().any(|attribute| {
            let (new, old) = (planned.get(&attribute.name), prior.get(&attribute.name));
            !attribute.is_computed() && new != old
        })
}

/// Makes what the server will say anew unknown.
fn computed(object: &Object, planned: &Value, prior: &Value, changes: bool) -> Value {
    object.value(|attribute| {
        let (new, old) = (planned.get(&attribute.name), prior.get(&attribute.name));
        match (&attribute.mode, &attribute.shape) {
            (Mode::Computed { .. }, _) if prior.is_null() => Value::UNKNOWN,
            (Mode::Computed { lasting: true }, _) if old.is_null() => Value::UNKNOWN,
            (Mode::Computed { lasting: false }, _) if changes => Value::UNKNOWN,
            (Mode::Computed { .. }, _) => old.clone(),
            (_, Shape::Nested(Nesting::Single, inner)) if new.as_map().is_some() => {
                computed(inner, new, old, changes)
            }
            (_, _) => new.clone(),
        }
    })
}
