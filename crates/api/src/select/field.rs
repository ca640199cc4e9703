//! Field selectors: `metadata.name=web,status.state!=Running`.
use std::fmt;

use super::{
    SelectorError,
    term::{field_term, found_by_field},
};
use crate::{
    kind::Kind,
    lookup::{self, Step},
    object::Object,
    record::Value,
    schema::{Element, FieldSchema, Scalar, Shape},
    suggest::did_you_mean,
};

/// Comparisons of fields with texts that must all hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    path: String,
    steps: Vec<Step>,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Reads a selector for one kind; an empty one selects everything. Metadata, columns and
    /// every string of spec and status can be compared.
    pub fn parse(text: &str, kind: &Kind) -> Result<Self, SelectorError> {
        let parts = split(text).into_iter().filter(|part| !part.trim().is_empty());
        let requirements =
            parts.map(|part| parse_requirement(&part, kind)).collect::<Result<_, _>>();
        let requirements = requirements
            .map_err(|problem| SelectorError::Field { selector: text.to_owned(), problem })?;
        Ok(Self { requirements })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the fields of an object fulfil all requirements.
    pub fn matches(&self, object: &Object) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(object))
    }

    /// The one value that a field must have, where the selector says so: lets a list of
    /// `metadata.name=x` be a get.
    pub fn exact(&self, path: &str) -> Option<&str> {
        let path = own_path(path);
        let found = self.requirements.iter().find(|r| r.equal && r.path == path);
        found.map(|requirement| requirement.value.as_str())
    }

    /// The values that a field is compared with.
    pub fn values(&self, path: &str) -> Vec<String> {
        let path = own_path(path);
        let found = self.requirements.iter().filter(|requirement| requirement.path == path);
        found.map(|requirement| requirement.value.clone()).collect()
    }

    /// For each requirement that [`crate::terms`] can answer, the terms of which an object that
    /// fulfils it has one. What is absent has no term, and compares as empty.
    pub fn terms(&self, kind: &Kind) -> Vec<Vec<String>> {
        let answered = self.requirements.iter().filter(|requirement| {
            requirement.equal
                && !requirement.value.is_empty()
                && found_by_field(kind, &requirement.path)
        });
        answered.map(|found| vec![field_term(&found.path, &found.value)]).collect()
    }

    /// Changes the values that a field is compared with, where it is known by another name inside.
    pub fn map_values(&mut self, path: &str, change: impl Fn(&str) -> String) {
        let path = own_path(path);
        for requirement in self.requirements.iter_mut().filter(|found| found.path == path) {
            requirement.value = change(&requirement.value);
        }
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { path, value, equal, .. }) in self.requirements.iter().enumerate()
        {
            let comma = if 0 < index { "," } else { "" };
            let operator = if *equal { "=" } else { "!=" };
            write!(f, "{comma}{path}{operator}")?;
            for letter in value.chars() {
                if matches!(letter, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

impl Requirement {
    /// An absent value compares as empty text, as in Kubernetes.
    fn holds(&self, object: &Object) -> bool {
        let found = lookup::follow(object.record(), &self.steps);
        let same = match found {
            None => self.value.is_empty() || self.is_zero(),
            Some(Value::String(text)) => *text == self.value,
            Some(Value::Bool(value)) => self.value.parse() == Ok(*value),
            Some(Value::I32(value)) => self.value.parse() == Ok(*value),
            Some(Value::I64(value)) => self.value.parse() == Ok(*value),
            Some(Value::U32(value)) => self.value.parse() == Ok(*value),
            Some(Value::U64(value)) => self.value.parse() == Ok(*value),
            Some(_) => false,
        };
        same == self.equal
    }

    /// A number or boolean without presence that is absent has its zero value.
    fn is_zero(&self) -> bool {
        let plain = self.steps.last().is_some_and(|step| step.zero_when_absent);
        plain && matches!(self.value.as_str(), "0" | "false")
    }
}

/// Splits at commas; a backslash takes the next character as it is.
fn split(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            parts.push(String::new());
            continue;
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    parts
}

fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match c {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                Some(_) | None => {
                    return Err("a backslash stands before '\\', ',' or '='".to_owned());
                }
            },
            c => plain.push(c),
        }
    }
    Ok(plain)
}

fn parse_requirement(part: &str, kind: &Kind) -> Result<Requirement, String> {
    let operators = [("!=", false), ("==", true), ("=", true)];
    let found = operators
        .iter()
        .filter_map(|(operator, equal)| Some((part.find(operator)?, operator, *equal)))
        .min_by_key(|(at, operator, _)| (*at, std::cmp::Reverse(operator.len())));
    let Some((at, operator, equal)) = found else {
        return Err(format!("{part:?} is not of the form field=value or field!=value"));
    };
    let path = own_path(part[..at].trim());
    let value = unescape(part[at + operator.len()..].trim())?;
    let steps = comparable(kind, &path)?;
    Ok(Requirement { path, steps, value, equal })
}

/// The project has two names.
fn own_path(path: &str) -> String {
    match path {
        "metadata.namespace" => "metadata.project".to_owned(),
        other => other.to_owned(),
    }
}

/// The way to a field that may be compared.
fn comparable(kind: &Kind, path: &str) -> Result<Vec<Step>, String> {
    let unsupported = || {
        let columns = kind.columns().iter().map(|column| column.path.as_str());
        let known = ["metadata.name", "metadata.project"].into_iter().chain(columns);
        let hint = did_you_mean(path, known);
        format!("{path:?} is not a field of {} that can be selected{hint}", kind.kind())
    };
    let field = kind.schema().field(path).ok_or_else(unsupported)?;
    let is_column = kind.columns().iter().any(|column| column.path == path);
    if field.rules.sensitive || !(is_text(field) || (is_column && is_scalar(field))) {
        return Err(unsupported());
    }
    lookup::steps(kind.schema(), path).ok_or_else(unsupported)
}

fn is_text(field: &FieldSchema) -> bool {
    field.shape == Shape::Single(Element::Scalar(Scalar::String))
}

fn is_scalar(field: &FieldSchema) -> bool {
    matches!(field.shape, Shape::Single(Element::Scalar(_)))
}
