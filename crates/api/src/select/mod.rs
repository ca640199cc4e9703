//! Selectors: which objects of a list are meant.
//!
//! Both kinds of selectors are read once and then matched directly on the message, without
//! making JSON of it.
mod field;
mod label;
mod term;

pub use field::FieldSelector;
pub use label::LabelSelector;
pub use term::{same_terms, terms};

/// A selector that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    #[error("label selector {selector:?}: {problem}")]
    Label { selector: String, problem: String },
    #[error("field selector {selector:?}: {problem}")]
    Field { selector: String, problem: String },
}
