//! Where in a resource something is.
use crate::schema::{Nesting, Object, Shape, Style};
use crate::value::Type;
use crate::wire::tfplugin6::AttributePath;
use crate::wire::tfplugin6::attribute_path::Step as WireStep;
use crate::wire::tfplugin6::attribute_path::step::Selector;

/// The way from the root of a resource to one of its values. Items of sets have no place; what is said of them is
/// said of the set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Attribute(String),
    Index(usize),
    Key(String),
}

impl Path {
    pub fn attribute(&self, name: &str) -> Self {
        self.with(Step::Attribute(name.to_owned()))
    }
    pub fn index(&self, at: usize) -> Self {
        self.with(Step::Index(at))
    }
    pub fn key(&self, key: &str) -> Self {
        self.with(Step::Key(key.to_owned()))
    }
    fn with(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// From names of attributes.
    pub fn of(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Step::Attribute((*name).to_owned())).collect())
    }

    /// Whether it leads to the same value, or into it.
    pub fn is_within(&self, outer: &Self) -> bool {
        self.0.starts_with(&outer.0)
    }

    /// For the source line of something that is wrong. Hosts look for blocks along a path, and for the keys of the
    /// value at its end; of an attribute that is an object they find the line of what is in it by its key alone.
    pub fn to_place(&self, style: Style) -> AttributePath {
        let steps = match (style, self.0.as_slice()) {
            (Style::Attributes, [outer, Step::Attribute(inner), ..]) => {
                vec![outer.clone(), Step::Key(inner.clone())]
            }
            (Style::Attributes | Style::Blocks, steps) => steps.to_vec(),
        };
        Self(steps).to_wire()
    }

    pub fn to_wire(&self) -> AttributePath {
        let steps = self.0.iter().map(|step| WireStep {
            selector: Some(match step {
                Step::Attribute(name) => Selector::AttributeName(name.clone()),
                Step::Index(at) => Selector::ElementKeyInt(i64::try_from(*at).unwrap_or(i64::MAX)),
                Step::Key(key) => Selector::ElementKeyString(key.clone()),
            }),
        });
        AttributePath { steps: steps.collect() }
    }
}

/// The attribute that a violation speaks of: `spec.files[0].mode` in JSON names. What lies in a set, and what no
/// attribute stands for, is as near as can be.
pub fn of_violation(object: &Object, violation: &str) -> Path {
    let mut path = Path::default();
    let mut object = Some(object);
    let mut rest = violation;
    while let Some(within) = object {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let Some(attribute) = within.by_json(&rest[..end]) else { return path };
        path = path.attribute(&attribute.name);
        rest = &rest[end..];
        let mut selector = None;
        if let Some(inner) = rest.strip_prefix('[') {
            let Some((key, after)) = inner.split_once(']') else { return path };
            (selector, rest) = (Some(key), after);
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (keyed, next) = match &attribute.shape {
            Shape::Nested(nesting, inner) => {
                (*nesting == Nesting::Map, (nesting_has_places(nesting), Some(inner)))
            }
            Shape::Plain(r#type, _) => {
                (matches!(r#type, Type::Map(_)), (!matches!(r#type, Type::Set(_)), None))
            }
        };
        let (has_places, next) = next;
        match (selector, has_places) {
            (None, _) => {}
            (Some(_), false) => return path,
            (Some(key), true) if keyed => path = path.key(key),
            (Some(key), true) => match key.parse() {
                Ok(at) => path = path.index(at),
                Err(_) => return path,
            },
        }
        object = next.filter(|_| !rest.is_empty());
    }
    path
}

fn nesting_has_places(nesting: &Nesting) -> bool {
    !matches!(nesting, Nesting::Keyed { .. })
}
