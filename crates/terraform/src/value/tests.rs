//! Laws of values, and numbers in every form that a host may choose.
use super::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// A type, and a value of it.
fn typed() -> impl Strategy<Value = (Type, Value)> {
    types().prop_flat_map(|r#type| {
        let value = value_of(&r#type);
        (Just(r#type), value)
    })
}

fn types() -> impl Strategy<Value = Type> {
    let leaf =
        prop_oneof![Just(Type::Bool), Just(Type::Number), Just(Type::String), Just(Type::Dynamic)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(Type::list),
            inner.clone().prop_map(Type::set),
            inner.clone().prop_map(Type::map),
            vec(inner.clone(), 0..4).prop_map(Type::Tuple),
            btree_map("[a-z]{1,4}", inner, 0..4).prop_map(Type::Object),
        ]
    })
}

fn numbers() -> impl Strategy<Value = Number> {
    let large = (any::<i128>(), 0u32..128).prop_map(|(number, shift)| number >> shift);
    prop_oneof![
        large.prop_map(Number::Integer),
        any::<f64>().prop_filter("finite", |float| float.is_finite()).prop_map(Number::float),
        "[1-9][0-9]{40,60}\\.[0-9]{1,9}[1-9]".prop_map(Number::Text),
    ]
}

fn value_of(r#type: &Type) -> BoxedStrategy<Value> {
    let known = match r#type {
        Type::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        Type::Number => numbers().prop_map(Value::Number).boxed(),
        Type::String => ".{0,40}".prop_map(Value::String).boxed(),
        Type::List(item) => vec(value_of(item), 0..4).prop_map(Value::List).boxed(),
        Type::Set(item) => vec(value_of(item), 0..4).prop_map(Value::set).boxed(),
        Type::Map(item) => btree_map(".{0,8}", value_of(item), 0..4).prop_map(Value::Map).boxed(),
        Type::Tuple(items) => {
            items.iter().map(value_of).collect::<Vec<_>>().prop_map(Value::List).boxed()
        }
        Type::Object(attributes) => {
            let (names, values): (Vec<_>, Vec<_>) =
                attributes.iter().map(|(name, r#type)| (name.clone(), value_of(r#type))).unzip();
            let named = move |values: Vec<Value>| names.iter().cloned().zip(values).collect();
            values.prop_map(move |values| Value::Map(named(values))).boxed()
        }
        Type::Dynamic => {
            let bool = any::<bool>().prop_map(|it| (Type::Bool, Value::Bool(it)));
            let tuple = (any::<bool>(), ".{0,8}").prop_map(|(flag, text)| {
                let types = Type::Tuple(vec![Type::Bool, Type::String]);
                (types, Value::List(vec![Value::Bool(flag), Value::String(text)]))
            });
            prop_oneof![bool, tuple].prop_map(|pair| Value::Dynamic(Box::new(pair))).boxed()
        }
    };
    let refined = vec(any::<u8>(), 1..40).prop_map(|known| Value::Unknown(Refinement(known)));
    prop_oneof![8 => known, 1 => Just(Value::Null), 1 => Just(Value::UNKNOWN), 1 => refined].boxed()
}

proptest! {
    #[test]
    fn what_is_written_is_read((r#type, value) in typed()) {
        prop_assert_eq!(decode(&encode(&value), &r#type), Ok(value));
    }

    #[test]
    fn noise_is_refused_or_read_and_never_more((r#type, value) in typed(), noise in vec(any::<u8>(), 0..200), cut in any::<prop::sample::Index>()) {
        let _ = decode(&noise, &r#type);
        let whole = encode(&value);
        let part = &whole[..cut.index(whole.len())];
        prop_assert!(decode(part, &r#type).is_err(), "a part of a value is no value");
        let longer = [whole.as_slice(), &[0xc0]].concat();
        prop_assert_eq!(decode(&longer, &r#type), Err(DecodeError::Rest(1)));
    }

    #[test]
    fn types_are_read_as_they_are_written(r#type in types()) {
        prop_assert_eq!(Type::parse(r#type.to_json().to_string().as_bytes()), Ok(r#type));
    }

    /// Order and doubles say nothing in a set.
    #[test]
    fn sets_compare_without_order(items in vec(value_of(&Type::String), 0..6)) {
        let mut turned = items.clone();
        turned.reverse();
        turned.extend(items.first().cloned());
        prop_assert_eq!(Value::set(items), Value::set(turned));
    }
}

#[track_caller]
fn check_number(bytes: &[u8], expect: Result<Number, DecodeError>) {
    assert_eq!(decode(bytes, &Type::Number), expect.map(Value::Number), "{bytes:x?}");
}

#[test]
fn numbers_come_in_any_form() {
    check_number(&[0x05], Ok(Number::Integer(5)));
    check_number(&[0xff], Ok(Number::Integer(-1)));
    check_number(&[0xcd, 1, 0], Ok(Number::Integer(256)));
    check_number(&[0xd1, 0xff, 0], Ok(Number::Integer(-256)));
    check_number(&[0xcb, 0x40, 0x14, 0, 0, 0, 0, 0, 0], Ok(Number::Integer(5)));
    check_number(&[0xca, 0x3f, 0, 0, 0], Ok(Number::Float(0.5)));
    check_number(b"\xa15", Ok(Number::Integer(5)));
    check_number(b"\xa30.5", Ok(Number::Float(0.5)));
    check_number(b"\xa31e3", Ok(Number::Integer(1000)));
    check_number(b"\xa3abc", Err(DecodeError::Number));
    check_number(&[0xcb, 0x7f, 0xf0, 0, 0, 0, 0, 0, 0], Err(DecodeError::Number));
}

#[test]
fn claims_of_length_cost_nothing() {
    let list = Type::list(Type::Bool);
    assert_eq!(decode(&[0xdd, 0xff, 0xff, 0xff, 0xff], &list), Err(DecodeError::Short));
    let map = Type::map(Type::Bool);
    assert_eq!(decode(&[0xdf, 0xff, 0xff, 0xff, 0xff], &map), Err(DecodeError::Short));
    assert_eq!(decode(&[0xdb, 0xff, 0xff, 0xff, 0xff], &Type::String), Err(DecodeError::Short));
}

/// A value that brings its type along can be nested as deep as its sender likes.
#[test]
fn depth_has_a_limit() {
    let mut value = Value::Bool(true);
    let mut r#type = Type::Bool;
    for _ in 0..DEPTH_MAX {
        value = Value::Dynamic(Box::new((r#type, value)));
        r#type = Type::Dynamic;
    }
    assert_eq!(decode(&encode(&value), &Type::Dynamic), Err(DecodeError::Deep));
}

#[test]
fn other_types_are_named() {
    let found = decode(&encode(&Value::text("x")), &Type::Bool).unwrap_err().to_string();
    assert!(found.contains("found text for true or false"), "{found}");
    let object = Value::object([("a", Value::Null)]);
    assert!(decode(&encode(&object), &Type::Object(BTreeMap::new())).is_err());
}

#[test]
fn states_of_other_versions_are_read_as_far_as_they_go() {
    let attributes = [("a".to_owned(), Type::String), ("b".to_owned(), Type::set(Type::Number))];
    let r#type = Type::Object(attributes.into());
    let json = serde_json::json!({"a": "x", "gone": {"deep": [1]}});
    let expect = Value::object([("a", Value::text("x")), ("b", Value::Null)]);
    assert_eq!(read_state(&json, &r#type), Ok(expect));
    let wrong = read_state(&serde_json::json!({"a": 5}), &r#type).unwrap_err();
    assert_eq!(wrong.to_string(), "state.a: a number where text should be");
    let dynamic = serde_json::json!({"type": ["tuple", ["bool"]], "value": [true]});
    let expect = (Type::Tuple(vec![Type::Bool]), Value::List(vec![Value::Bool(true)]));
    assert_eq!(read_state(&dynamic, &Type::Dynamic), Ok(Value::Dynamic(Box::new(expect))));
}
