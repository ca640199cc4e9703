//! Schemas as Terraform reads them.
use super::{Attribute, Mode, Nesting, Object, Shape};
use crate::wire::tfplugin6::Schema;
use crate::wire::tfplugin6::schema::object::Nesting as WireNesting;
use crate::wire::tfplugin6::schema::{Attribute as WireAttribute, Block, Object as WireObject};

/// Version of the schemas. A state of another one is read as far as its attributes are still there.
pub const VERSION: i64 = 0;

/// The schema of a provider, a resource or a data source.
pub fn schema(object: &Object, description: &str) -> Schema {
    let block = Block {
        version: VERSION,
        attributes: object.attributes.iter().map(attribute).collect(),
        description: description.to_owned(),
        ..Block::default()
    };
    Schema { version: VERSION, block: Some(block) }
}

fn attribute(attribute: &Attribute) -> WireAttribute {
    let (required, optional, computed) = match attribute.mode {
        Mode::Required => (true, false, false),
        Mode::Optional => (false, true, false),
        Mode::Defaulted(_) | Mode::Chosen => (false, true, true),
        Mode::Computed { .. } => (false, false, true),
    };
    let (r#type, nested_type) = match &attribute.shape {
        Shape::Plain(r#type, _) => (r#type.to_json().to_string().into_bytes(), None),
        Shape::Nested(nesting, object) => (Vec::new(), Some(nested(nesting, object))),
    };
    WireAttribute {
        name: attribute.name.clone(),
        r#type,
        nested_type,
        description: attribute.description.clone(),
        required,
        optional,
        computed,
        sensitive: attribute.sensitive,
        ..WireAttribute::default()
    }
}

fn nested(nesting: &Nesting, object: &Object) -> WireObject {
    let nesting = match nesting {
        Nesting::Single => WireNesting::Single,
        Nesting::List => WireNesting::List,
        Nesting::Keyed { .. } => WireNesting::Set,
        Nesting::Map => WireNesting::Map,
    };
    WireObject {
        attributes: object.attributes.iter().map(attribute).collect(),
        nesting: nesting.into(),
    }
}
