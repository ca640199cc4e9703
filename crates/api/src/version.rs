//! The version of an object, as its spec names it, for kinds whose versions are kept.
use orrery_proto::options::v1::KindRules;
use prost_reflect::{FieldDescriptor, Kind as ProtoKind};

use crate::{
    kind::Kind,
    object::{Encoded, Object, wire},
};

/// The field of a spec that names it.
const FIELD: &str = "version";

/// The field that names the version, for a kind that wants them kept.
pub(crate) fn find(
    spec: Option<&FieldDescriptor>,
    rules: &KindRules,
) -> Result<Option<u32>, String> {
    if !rules.versioned {
        return Ok(None);
    }
    let spec = spec.map(FieldDescriptor::kind);
    let field = spec.and_then(|spec| spec.as_message()?.get_field_by_name(FIELD));
    let text = field.filter(|it| matches!(it.kind(), ProtoKind::String) && !it.is_list());
    match text {
        Some(field) => Ok(Some(field.number())),
        None => Err(format!("its versions are kept, so it must have a text spec.{FIELD}")),
    }
}

impl Kind {
    /// Whether the versions of an object of this kind are kept.
    pub fn versioned(&self) -> bool {
        self.version.is_some()
    }
}

impl Object {
    /// What its spec calls its version; empty where it has none, or the kind keeps none.
    pub fn version(&self) -> &str {
        let found = self.kind().version.and_then(|number| Some(self.spec()?.text(number)));
        found.unwrap_or_default()
    }
}

impl Encoded {
    /// What its spec calls its version. Nothing is decoded for that.
    pub fn version(&self) -> &str {
        let kind = self.kind();
        let (Some(spec), Some(field)) = (kind.numbers.spec, kind.version) else { return "" };
        let found = wire::all(self.raw(), &[spec, field]);
        found.last().map_or("", |text| wire::text(text))
    }
}
