//! Conversion between the hub version of a kind and its spokes.
//!
//! ```text
//!   v1beta1 --+                      +--> stored form: one resource ...
//!             +--> hub version (v1) <+
//!   v2      --+                      +--> ... or several
//! ```
//!
//! Every spoke converts to and from the hub version only, so a new version needs one convertor.
//! What a spoke cannot say must survive the way through it: [`keep_rest`] puts it into an
//! annotation of the spoke and [`take_rest`] gets it back.
mod rest;

use std::{fmt, sync::Arc};

pub use rest::{REST_ANNOTATION, keep_rest, take_rest};

use crate::{
    kind::{Kind, same_kind},
    object::{Object, ObjectError},
    violation::{Violation, summarize},
};

/// Converts between a hub kind and one of its spokes. A spoke is another served version (one
/// part) or a stored form of one or several resources.
///
/// Contract: `to_hub(from_hub(h)) == h`, and `from_hub(to_hub(s)) == s` for every spoke that is
/// written by people. There are no defaults for spokes; the hub version gets its own.
pub trait Convertor: Send + Sync {
    /// Called once, when the scheme is made, with the kinds that will be converted.
    fn init(&self, hub: &Arc<Kind>, parts: &[Arc<Kind>]) -> Result<(), ConvertError> {
        let _ = (hub, parts);
        Ok(())
    }

    /// Makes the hub object of all parts of a spoke.
    fn to_hub(&self, hub: &Arc<Kind>, parts: &[Object]) -> Result<Object, ConvertError>;

    /// Makes the parts of the spoke, one per kind or more, of a hub object.
    #[expect(clippy::wrong_self_convention, reason = "the way back of `to_hub` is `from_hub`")]
    fn from_hub(&self, hub: &Object, parts: &[Arc<Kind>]) -> Result<Vec<Object>, ConvertError>;
}

/// A view of a hub kind and the way there and back.
pub struct Spoke {
    /// The version, or the name of a stored form.
    pub name: String,
    pub hub: Arc<Kind>,
    /// The kinds that the spoke is made of.
    pub parts: Vec<Arc<Kind>>,
    pub(crate) convertor: Arc<dyn Convertor>,
}

/// A resource that cannot be converted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConvertError {
    #[error("nothing converts {from} to {to}")]
    NoPath { from: String, to: String },
    #[error("{part} is missing: it is a part of {of}")]
    MissingPart { part: String, of: String },
    #[error("a {found} is not a part of {of}")]
    ForeignPart { found: String, of: String },
    #[error("cannot be said in the other version: {}", summarize(.0))]
    Invalid(Vec<Violation>),
    #[error(transparent)]
    Object(#[from] ObjectError),
}

impl Spoke {
    /// Makes the hub object of the spoke's parts.
    pub fn to_hub(&self, parts: &[Object]) -> Result<Object, ConvertError> {
        for part in parts {
            if !self.parts.iter().any(|kind| same_kind(kind, part.kind())) {
                let found = part.kind().kind().to_owned();
                return Err(ConvertError::ForeignPart { found, of: self.describe() });
            }
        }
        self.convertor.to_hub(&self.hub, parts)
    }

    /// Makes the spoke's parts of a hub object.
    pub fn from_hub(&self, hub: &Object) -> Result<Vec<Object>, ConvertError> {
        self.convertor.from_hub(hub, &self.parts)
    }

    /// Makes the only part of a spoke that is a version.
    pub(crate) fn single_from_hub(&self, hub: &Object) -> Result<Object, ConvertError> {
        let missing = || ConvertError::MissingPart {
            part: self.parts.first().map(|kind| kind.kind().to_owned()).unwrap_or_default(),
            of: self.describe(),
        };
        self.from_hub(hub)?.into_iter().next().ok_or_else(missing)
    }

    pub(crate) fn is_version_of(&self, kind: &Arc<Kind>) -> bool {
        matches!(self.parts.as_slice(), [only] if same_kind(only, kind))
    }

    fn describe(&self) -> String {
        format!("{} of {}", self.name, self.hub.qualified_plural())
    }
}

impl fmt::Debug for Spoke {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spoke({})", self.describe())
    }
}
