//! Schemas as Terraform reads them.
use super::blocks::is_block;
use super::{Attribute, Form, Mode, Nesting, Object, Shape, Style};
use crate::wire::tfplugin6::Schema;
use crate::wire::tfplugin6::schema::object::Nesting as WireNesting;
use crate::wire::tfplugin6::schema::{
    Attribute as WireAttribute, Block, NestedBlock, Object as WireObject,
};

/// Version of the schemas. A state of another one is read as far as its attributes are still there.
pub const VERSION: i64 = 0;

/// The schema of a provider, a resource or a data source.
pub fn schema(object: &Object, style: Style, description: &str) -> Schema {
    let block = Block { description: description.to_owned(), ..block(object, style) };
    Schema { version: VERSION, block: Some(block) }
}

fn block(object: &Object, style: Style) -> Block {
    let (blocks, values): (Vec<&Attribute>, Vec<&Attribute>) =
        object.attributes.iter().partition(|it| style == Style::Blocks && is_block(it));
    let value = |it: &&Attribute| match (style, &it.shape) {
        // What the server alone says is a value in every style.
        (Style::Blocks, Shape::Nested(_, _)) => {
            let shape = Shape::Plain(it.r#type(), Form::Natural);
            attribute(&Attribute { shape, ..(*it).clone() })
        }
        (Style::Attributes | Style::Blocks, _) => attribute(it),
    };
    Block {
        version: VERSION,
        attributes: values.iter().map(value).collect(),
        block_types: blocks.iter().filter_map(|it| nested_block(it)).collect(),
        ..Block::default()
    }
}

fn nested_block(attribute: &Attribute) -> Option<NestedBlock> {
    let Shape::Nested(nesting, object) = &attribute.shape else { return None };
    let least = i64::from(attribute.mode == Mode::Required);
    Some(NestedBlock {
        type_name: attribute.name.clone(),
        block: Some(Block {
            description: attribute.description.clone(),
            ..block(object, Style::Blocks)
        }),
        nesting: wire_nesting(nesting).into(),
        min_items: least,
        // A single block is there once or not at all, and its limits say the same thing twice.
        max_items: if *nesting == Nesting::Single { least } else { 0 },
    })
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
    WireObject {
        attributes: object.attributes.iter().map(attribute).collect(),
        nesting: wire_nesting(nesting).into(),
    }
}

fn wire_nesting(nesting: &Nesting) -> WireNesting {
    match nesting {
        Nesting::Single => WireNesting::Single,
        Nesting::List => WireNesting::List,
        Nesting::Keyed { .. } => WireNesting::Set,
        Nesting::Map => WireNesting::Map,
    }
}
