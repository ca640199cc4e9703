//! What the host makes of a schema: the types of its values.
use orrery_terraform::value::Type;
use orrery_terraform::wire::tfplugin6::Schema;
use orrery_terraform::wire::tfplugin6::schema::Attribute;
use orrery_terraform::wire::tfplugin6::schema::object::Nesting;

/// The type of values of a schema, as its attributes tell it.
pub fn type_of(schema: &Schema) -> Type {
    object(&schema.block.as_ref().expect("a block").attributes)
}

fn object(attributes: &[Attribute]) -> Type {
    Type::Object(attributes.iter().map(|a| (a.name.clone(), attribute(a))).collect())
}

fn attribute(attribute: &Attribute) -> Type {
    let Some(nested) = &attribute.nested_type else {
        return Type::parse(&attribute.r#type).expect("a type");
    };
    let inner = object(&nested.attributes);
    match nested.nesting() {
        Nesting::Single => inner,
        Nesting::List => Type::list(inner),
        Nesting::Set => Type::set(inner),
        Nesting::Map => Type::map(inner),
        Nesting::Invalid => panic!("{} has no nesting", attribute.name),
    }
}
