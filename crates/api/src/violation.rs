//! One thing that is wrong with a resource, in the words that users of `kubectl` know.
use std::fmt;

use crate::suggest::did_you_mean;

/// Longest part of a user's value that an error repeats; a message must stay readable.
const ECHO_CHARS_MAX: usize = 80;

/// Most problems that are named at once. More would not be read, and a hostile resource could
/// make an answer many times its own size.
pub const PROBLEMS_MAX: usize = 100;

/// What is wrong, where, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field from the root of the resource: `spec.placement.nodes[0]`.
    pub path: String,
    /// What is wrong and what to do.
    pub message: String,
    /// The class of the problem, for programs.
    pub reason: Reason,
}

/// Classes of problems; [`Reason::as_str`] gives the names that the Kubernetes dialect uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A mandatory value is missing.
    Required,
    /// A value breaks a rule.
    Invalid,
    /// A value is not one of the allowed ones.
    NotSupported,
    /// A value must not be there.
    Forbidden,
    /// A value stands twice.
    Duplicate,
    /// A string is too long.
    TooLong,
    /// A list or map has too many items.
    TooMany,
    /// A value has the wrong type.
    TypeInvalid,
    /// The kind has no such field.
    UnknownField,
}

impl Reason {
    /// The cause as a `Status` of the Kubernetes dialect names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden | Self::UnknownField => "FieldValueForbidden",
            Self::Duplicate => "FieldValueDuplicate",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

impl Violation {
    /// A violation in free words.
    pub fn new(path: impl Into<String>, reason: Reason, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), reason }
    }

    /// A mandatory value is missing; `hint` says what to write.
    pub fn required(path: impl Into<String>, hint: &str) -> Self {
        Self::new(path, Reason::Required, format!("Required value: {hint}"))
    }

    /// `found` breaks a rule; `why` says which, in the form "must ...".
    pub fn invalid(path: impl Into<String>, found: impl fmt::Display, why: &str) -> Self {
        Self::new(path, Reason::Invalid, format!("Invalid value: {}: {why}", echo(found)))
    }

    /// `found` is not among `allowed`.
    pub fn not_supported(path: impl Into<String>, found: &str, allowed: &[String]) -> Self {
        let list: Vec<String> = allowed.iter().map(|value| format!("{value:?}")).collect();
        let hint = did_you_mean(found, allowed.iter().map(String::as_str));
        let message = format!(
            "Unsupported value: {}: supported values: {}{hint}",
            echo(format_args!("{found:?}")),
            list.join(", ")
        );
        Self::new(path, Reason::NotSupported, message)
    }

    /// Something is there that must not be.
    pub fn forbidden(path: impl Into<String>, why: &str) -> Self {
        Self::new(path, Reason::Forbidden, format!("Forbidden: {why}"))
    }

    /// `found` stands twice in a set or as a key.
    pub fn duplicate(path: impl Into<String>, found: impl fmt::Display) -> Self {
        Self::new(path, Reason::Duplicate, format!("Duplicate value: {}", echo(found)))
    }

    /// A string or byte string has more than `limit` bytes.
    pub fn too_long(path: impl Into<String>, limit: usize) -> Self {
        let message = format!("Too long: may not be more than {limit} bytes");
        Self::new(path, Reason::TooLong, message)
    }

    /// A list or map has more than `limit` items.
    pub fn too_many(path: impl Into<String>, count: usize, limit: usize) -> Self {
        let message = format!("Too many: {count}: must have at most {limit} items");
        Self::new(path, Reason::TooMany, message)
    }

    /// A value of the wrong type, such as text where a number belongs.
    pub fn wrong_type(path: impl Into<String>, expected: &str, found: impl fmt::Display) -> Self {
        let message = format!("Invalid value: expected {expected}, found {}", echo(found));
        Self::new(path, Reason::TypeInvalid, message)
    }

    /// A field that the kind does not have; `known` are those it has at that place.
    pub fn unknown_field<'a>(
        path: impl Into<String>,
        name: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Self {
        let message = format!("unknown field{}", did_you_mean(name, known));
        Self::new(path, Reason::UnknownField, message)
    }

    /// The text that a strict decoder of the Kubernetes dialect gives, where it has one.
    pub fn strict_text(&self) -> String {
        match self.reason {
            Reason::UnknownField => {
                self.message.replacen("unknown field", &format!("unknown field {:?}", self.path), 1)
            }
            Reason::Required
            | Reason::Invalid
            | Reason::NotSupported
            | Reason::Forbidden
            | Reason::Duplicate
            | Reason::TooLong
            | Reason::TooMany
            | Reason::TypeInvalid => self.to_string(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collects problems up to [`PROBLEMS_MAX`]; those beyond it are not even put into words.
#[derive(Default)]
pub(crate) struct Findings {
    found: Vec<Violation>,
    more: bool,
}

impl Findings {
    pub fn report(&mut self, make: impl FnOnce() -> Violation) {
        match self.found.len() < PROBLEMS_MAX {
            true => self.found.push(make()),
            false => self.more = true,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The problems, with a last one that says so if there are more.
    pub fn into_vec(mut self) -> Vec<Violation> {
        if self.more {
            let message = format!("Too many: the first {PROBLEMS_MAX} problems are named");
            self.found.push(Violation::new("", Reason::TooMany, message));
        }
        self.found
    }
}

/// Joins violations for one line of an error.
pub(crate) fn summarize(violations: &[Violation]) -> String {
    violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("; ")
}

fn echo(found: impl fmt::Display) -> String {
    let text = found.to_string();
    match text.char_indices().nth(ECHO_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_kubectl_prints_them() {
        let allowed = ["always".to_owned(), "never".to_owned()];
        let cases = [
            (Violation::required("spec.x", "say what"), "spec.x: Required value: say what"),
            (
                Violation::not_supported("spec.x", "alway", &allowed),
                "spec.x: Unsupported value: \"alway\": supported values: \"always\", \"never\", \
                 did you mean \"always\"?",
            ),
            (
                Violation::wrong_type("spec.x", "an integer", "the string \"a\""),
                "spec.x: Invalid value: expected an integer, found the string \"a\"",
            ),
        ];
        for (violation, expect) in cases {
            assert_eq!(violation.to_string(), expect);
        }
    }

    #[test]
    fn strict_text_names_the_field_as_strict_decoders_do() {
        let unknown =
            Violation::unknown_field("spec.replicaz", "replicaz", ["replicas"].into_iter());
        assert_eq!(
            unknown.strict_text(),
            "unknown field \"spec.replicaz\", did you mean \"replicas\"?"
        );
    }

    #[test]
    fn problems_are_named_up_to_a_limit() {
        let mut findings = Findings::default();
        for index in 0..PROBLEMS_MAX + 5 {
            findings.report(|| Violation::forbidden(format!("a[{index}]"), "no"));
        }
        let found = findings.into_vec();
        assert_eq!(found.len(), PROBLEMS_MAX + 1);
        assert_eq!(found[PROBLEMS_MAX].to_string(), "Too many: the first 100 problems are named");
    }

    #[test]
    fn long_values_are_not_repeated_in_full() {
        let violation = Violation::invalid("spec.x", "é".repeat(500), "must be short");
        assert!(violation.message.chars().count() < 150, "{}", violation.message);
    }
}
