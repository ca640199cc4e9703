//! Laws of plan, declaration and state, for any configuration of any kind.
use super::catalog;
use crate::resource::{View, declare, owned, plan, show};
use crate::schema::{Attribute, Form, Mode, Nesting, Object, ResourceType, Shape};
use crate::value::{Type, Value, decode, encode};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_api::{DecodeOptions, JsonOptions};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

const PROJECT: &str = "default";

/// A resource type, and a configuration of it.
fn configured() -> impl Strategy<Value = (&'static ResourceType, Value)> {
    let types: Vec<&'static ResourceType> = catalog().resources.values().collect();
    proptest::sample::select(types).prop_flat_map(|of| (Just(of), object(of.object())))
}

fn object(object: &Object) -> BoxedStrategy<Value> {
    let (names, values): (Vec<String>, Vec<BoxedStrategy<Value>>) =
        object.attributes.iter().map(|a| (a.name.clone(), attribute(a))).unzip();
    let choices = object.choices.clone();
    let made = (values, vec(any::<prop::sample::Index>(), choices.len()));
    made.prop_map(move |(values, picks)| {
        let mut made: std::collections::BTreeMap<_, _> =
            names.iter().cloned().zip(values).collect();
        for (choice, pick) in choices.iter().zip(picks) {
            let kept = pick.get(&choice.branches);
            for branch in choice.branches.iter().filter(|branch| *branch != kept) {
                made.insert(branch.clone(), Value::Null);
            }
        }
        Value::Map(made)
    })
    .boxed()
}

fn attribute(attribute: &Attribute) -> BoxedStrategy<Value> {
    let value = match &attribute.shape {
        // The rest of the provider's own words are not sent.
        _ if attribute.json.is_none() => return Just(Value::Null).boxed(),
        Shape::Plain(r#type, form) => plain(r#type, *form),
        Shape::Nested(Nesting::Single, inner) => object(inner),
        Shape::Nested(Nesting::List, inner) => {
            vec(object(inner), 0..3).prop_map(Value::List).boxed()
        }
        Shape::Nested(Nesting::Map, inner) => {
            btree_map("[a-z]{1,3}", object(inner), 0..3).prop_map(Value::Map).boxed()
        }
        Shape::Nested(Nesting::Keyed { key }, inner) => {
            let key = key.clone();
            btree_map("[a-z]{1,3}", object(inner), 0..3)
                .prop_map(move |items| keyed(&key, items))
                .boxed()
        }
    };
    match attribute.mode {
        Mode::Computed { .. } => Just(Value::Null).boxed(),
        Mode::Required => value,
        Mode::Optional | Mode::Defaulted(_) | Mode::Chosen => {
            prop_oneof![value, Just(Value::Null)].boxed()
        }
    }
}

fn keyed(key: &str, items: std::collections::BTreeMap<String, Value>) -> Value {
    let items = items.into_iter().map(|(name, item)| {
        let mut item = item.as_map().cloned().unwrap_or_default();
        item.insert(key.to_owned(), Value::String(name));
        Value::Map(item)
    });
    Value::set(items.collect())
}

fn plain(r#type: &Type, form: Form) -> BoxedStrategy<Value> {
    match (r#type, form) {
        (Type::List(item), _) => vec(plain(item, form), 0..3).prop_map(Value::List).boxed(),
        (Type::Set(item), _) => vec(plain(item, form), 0..3).prop_map(Value::set).boxed(),
        (Type::Map(item), _) => {
            btree_map("[a-z]{1,3}", plain(item, form), 0..3).prop_map(Value::Map).boxed()
        }
        (Type::Bool, _) => any::<bool>().prop_map(Value::Bool).boxed(),
        (Type::Number, _) => (0i64..2000).prop_map(Value::integer).boxed(),
        (_, Form::Bytes) => {
            vec(any::<u8>(), 0..9).prop_map(|bytes| Value::text(STANDARD.encode(bytes))).boxed()
        }
        (_, Form::Time) => {
            (0u32..60).prop_map(|s| Value::text(format!("2026-01-31T13:00:{s:02}+01:00"))).boxed()
        }
        (_, Form::Duration) => {
            (0u32..900, 0u32..100).prop_map(|(s, f)| Value::text(format!("{s}.{f:02}0s"))).boxed()
        }
        (_, Form::JsonText) => (0u32..9)
            .prop_map(|n| Value::text(format!("{{ \"b\": {n}.0, \"a\": [null] }}")))
            .boxed(),
        (_, Form::Opaque) => opaque(),
        (_, Form::Natural) => "[a-z ]{0,6}".prop_map(Value::String).boxed(),
    }
}

/// Opaque data in types that JSON does not have.
fn opaque() -> BoxedStrategy<Value> {
    btree_map("[a-z]{1,3}", vec("[a-z]{0,3}", 0..3), 0..3)
        .prop_map(|map| {
            let lists =
                |texts: Vec<String>| Value::List(texts.into_iter().map(Value::String).collect());
            let value =
                Value::Map(map.into_iter().map(|(key, texts)| (key, lists(texts))).collect());
            Value::Dynamic(Box::new((Type::map(Type::list(Type::String)), value)))
        })
        .boxed()
}

/// What a server makes of a declaration.
fn served(of: &ResourceType, declared: &Json) -> Json {
    let mut declared = declared.clone();
    fold(of.object(), &mut declared);
    let decoded =
        orrery_api::Object::from_json_value(&of.kind, &declared, &DecodeOptions::default());
    let mut object =
        decoded.unwrap_or_else(|error| panic!("{}: {error}\n{declared:#}", of.name)).object;
    object.default();
    let mut json = object.to_json_value(&JsonOptions::default());
    json["metadata"]["uid"] = json!("u1");
    json["metadata"]["resourceVersion"] = json!("7");
    json["metadata"]["labels"]["theirs"] = json!("x");
    json
}

/// Keeps texts as bytes, where a definition says so.
fn fold(object: &Object, json: &mut Json) {
    for attribute in &object.attributes {
        let Some(name) = &attribute.json else { continue };
        if let Some(keeper) = &attribute.kept_in
            && let Some(texts) = json.as_object_mut().and_then(|json| json.remove(name))
        {
            for (key, text) in texts.as_object().expect("a map of texts") {
                json[keeper][key] = json!(STANDARD.encode(text.as_str().expect("a text")));
            }
        }
        if let Shape::Nested(Nesting::Single, inner) = &attribute.shape
            && json[name].is_object()
        {
            fold(inner, &mut json[name]);
        }
    }
}

/// Whether a state keeps what was planned.
fn keeps(planned: &Value, state: &Value) -> bool {
    match (planned, state) {
        (Value::Unknown(_), _) => true,
        (Value::Map(planned), Value::Map(state)) => {
            planned.len() == state.len()
                && planned
                    .iter()
                    .all(|(name, value)| state.get(name).is_some_and(|now| keeps(value, now)))
        }
        (planned, state) => planned == state,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// What was planned is what is applied, and then nothing is left to do.
    #[test]
    fn an_applied_plan_is_kept_and_settled((of, config) in configured()) {
        let planned = plan(of.object(), &config, &Value::Null, &Json::Null, Some(PROJECT));
        prop_assert!(planned.replaces.is_empty());
        let project = planned.state.at(&["metadata", "project"]).as_str().unwrap_or_default().to_owned();
        let object = served(of, &declare(of, of.kind.api_version(), &project, &config));
        let state = show(of.object(), &object, &planned.state, View::Known);
        prop_assert!(keeps(&planned.state, &state), "{}\nplanned {:#?}\nstate {:#?}", of.name, planned.state, state);

        let again = plan(of.object(), &config, &state, &owned(of.object(), &config), Some(PROJECT));
        prop_assert!(again.replaces.is_empty(), "{} {:?}", of.name, again.replaces);
        prop_assert!(keeps(&again.state, &state), "{}\nagain {:#?}\nstate {:#?}", of.name, again.state, state);
        let refreshed = show(of.object(), &object, &state, View::Known);
        prop_assert_eq!(&refreshed, &state, "a second look sees the same");
    }

    /// A plan repeats whatever the configuration says.
    #[test]
    fn a_plan_says_what_the_configuration_says((of, config) in configured(), (other, prior) in configured()) {
        let prior = if of.name == other.name { prior } else { Value::Null };
        let planned = plan(of.object(), &config, &prior, &Json::Null, Some(PROJECT));
        prop_assert!(said(of.object(), &config, &planned.state), "{}\n{:#?}\n{:#?}", of.name, config, planned.state);
    }

    /// States and plans fit the type that the schema tells the host.
    #[test]
    fn what_is_sent_fits_its_type((of, config) in configured()) {
        let planned = plan(of.object(), &config, &Value::Null, &Json::Null, None);
        prop_assert_eq!(decode(&encode(&planned.state), of.r#type()), Ok(planned.state));
        let object = served(of, &declare(of, of.kind.api_version(), PROJECT, &config));
        let all = show(of.object(), &object, &Value::Null, View::All);
        prop_assert_eq!(decode(&encode(&all), of.r#type()), Ok(all));
    }
}

proptest! {
    /// Blocks say the same as attributes, but for collections that are empty.
    ///
    /// proves: HUB-21
    #[test]
    fn blocks_are_attributes_in_another_style((of, config) in configured()) {
        let blocks = crate::schema::blocks_of(of.object(), config.clone());
        let back = crate::schema::attributes_of(of.object(), blocks.clone());
        prop_assert_eq!(crate::schema::blocks_of(of.object(), back.clone()), blocks);
        prop_assert_eq!(crate::schema::attributes_of(of.object(), config), back);
    }
}

/// Whether everything that a configuration sets is planned like that.
fn said(object: &Object, config: &Value, planned: &Value) -> bool {
    object.attributes.iter().all(|attribute| {
        let (wanted, found) = (config.get(&attribute.name), planned.get(&attribute.name));
        match (&attribute.shape, wanted) {
            (_, Value::Null) => true,
            (Shape::Plain(_, _), wanted) => wanted == found,
            (Shape::Nested(Nesting::Single, inner), wanted) => said(inner, wanted, found),
            (Shape::Nested(Nesting::Map, inner), wanted) => {
                let each = wanted.as_map().into_iter().flatten();
                each.into_iter().all(|(key, wanted)| said(inner, wanted, found.get(key)))
            }
            (Shape::Nested(_, inner), wanted) => {
                let (wanted, found) =
                    (wanted.as_list().unwrap_or_default(), found.as_list().unwrap_or_default());
                let has = |wanted: &Value| found.iter().any(|found| said(inner, wanted, found));
                wanted.len() == found.len() && wanted.iter().all(has)
            }
        }
    })
}
