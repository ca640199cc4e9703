//! What holds whatever is declared.
use crate::support::scheme;
use orrery_api::{DecodeOptions, Kind, Object};
use orrery_hub::ownership::{
    self, Element, FieldSet, Manager, Managers, Operation, Scope, from_bytes, to_bytes,
};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

static KIND: LazyLock<Arc<Kind>> = LazyLock::new(|| scheme().resolve("", "Gizmo").expect("a kind"));
/// It has maps with keys that are numbers.
static GADGET: LazyLock<Arc<Kind>> = LazyLock::new(|| {
    let scheme = orrery_testkit::scheme().expect("the kinds of tests");
    scheme.resolve("", "Gadget").expect("a kind")
});

fn object(spec: &Value) -> Object {
    let value = json!({"metadata": {"name": "a", "project": "p"}, "spec": spec});
    Object::from_json_value(&KIND, &value, &DecodeOptions::default()).expect("valid").object
}

fn by(name: &str, operation: Operation) -> Manager {
    Manager { name: name.into(), operation, scope: Scope::Main }
}

fn applier(name: &str) -> Manager {
    by(name, Operation::Apply)
}

/// As the hub applies: defaults come afterwards.
fn apply(live: &Object, spec: &Value, who: &str) -> Result<Object, Vec<String>> {
    let next = ownership::apply(live, &object(spec), &applier(who), false);
    let mut next = next.map_err(|conflicts| {
        conflicts.into_iter().map(|conflict| conflict.field).collect::<Vec<_>>()
    })?;
    next.default();
    Ok(next)
}

/// An object whose every field belongs to someone.
fn base(spec: &Value) -> Object {
    let mut next = object(spec);
    next.default();
    let nothing = Object::new(&KIND);
    ownership::update(&nothing, &nothing, &mut next, Some(&by("base", Operation::Update)));
    next
}

fn without_managers(object: &Object) -> Object {
    let mut plain = object.clone();
    plain.update_meta(|meta| meta.managed_fields.clear());
    plain
}

fn text() -> impl Strategy<Value = String> {
    select(vec!["a", "b"]).prop_map(str::to_owned)
}

fn nested() -> impl Strategy<Value = Value> {
    let leaf = (option::of(text()), option::of(0..2i64)).prop_map(|(text, number)| {
        compact([("text", text.map(Value::from)), ("number", number.map(Value::from))])
    });
    leaf.prop_recursive(2, 4, 1, |inner| {
        (inner, option::of(text())).prop_map(|(inner, text)| {
            compact([("inner", Some(inner)), ("text", text.map(Value::from))])
        })
    })
}

fn compact<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

fn ports() -> impl Strategy<Value = Value> {
    let port = (option::of(80..82i32), option::of(text()));
    btree_map(select(vec!["http", "grpc", "x"]), port, 0..3).prop_map(|ports| {
        let port = |(name, (number, protocol)): (&str, (Option<i32>, Option<String>))| {
            compact([
                ("name", Some(name.into())),
                ("number", number.map(Value::from)),
                ("protocol", protocol.map(Value::from)),
            ])
        };
        ports.into_iter().map(port).collect()
    })
}

fn spec() -> impl Strategy<Value = Value> {
    let engine = prop_oneof![
        Just(None),
        option::of(0..2i32)
            .prop_map(|p| Some(("steam", compact([("pressure", p.map(Value::from))])))),
        option::of(0..2i32)
            .prop_map(|c| Some(("diesel", compact([("cylinders", c.map(Value::from))])))),
    ];
    let scalars = (option::of(text()), option::of(2..4i32), vec(text(), 0..2));
    let maps = (btree_map(text(), text(), 0..3), btree_map(text(), nested(), 0..3));
    let lists = (btree_set(text(), 0..3), ports(), option::of(btree_map(text(), 0..2i32, 0..2)));
    (scalars, maps, lists, option::of(nested()), engine).prop_map(
        |((image, replicas, args), (settings, parts), (zones, ports, opaque), nested, engine)| {
            let mut spec = compact([
                ("image", image.map(Value::from)),
                ("replicas", replicas.map(Value::from)),
                ("args", Some(json!(args))),
                ("settings", Some(json!(settings))),
                ("parts", Some(json!(parts))),
                ("zones", Some(json!(zones))),
                ("ports", Some(ports)),
                ("opaque", opaque.map(|opaque| json!(opaque))),
                ("nested", nested),
            ]);
            if let Some((name, value)) = engine {
                spec[name] = value;
            }
            spec
        },
    )
}

/// Every leaf of a spec with its value, told apart without the code under test.
fn leaves(spec: &Value) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for (name, value) in spec.as_object().expect("an object") {
        let path = format!(".spec.{name}");
        match name.as_str() {
            "settings" | "nested" | "steam" | "diesel" | "parts" => {
                collect(path, value, name == "parts", &mut found);
            }
            "zones" => {
                for zone in value.as_array().expect("a list") {
                    found.insert(format!("{path}[={zone}]"), json!(null));
                }
            }
            "ports" => {
                for port in value.as_array().expect("a list") {
                    let item = format!("{path}[name={}]", port["name"]);
                    found.insert(item.clone(), json!(null));
                    collect(item, port, false, &mut found);
                }
            }
            "args" if value == &json!([]) => {}
            _ => drop(found.insert(path, value.clone())),
        }
    }
    found
}

fn collect(path: String, value: &Value, entries: bool, found: &mut BTreeMap<String, Value>) {
    let Some(fields) = value.as_object() else {
        found.insert(path, value.clone());
        return;
    };
    let lists = path == ".spec.settings" || entries;
    if fields.is_empty() && !lists {
        found.insert(path.clone(), json!({}));
    }
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        if entries {
            found.insert(path.clone(), json!({}));
        }
        collect(path, value, false, found);
    }
}

/// The leaves of the first that the second cannot leave as they are.
fn disputed(first: &Value, second: &Value) -> Vec<String> {
    let (first_leaves, second_leaves) = (leaves(first), leaves(second));
    let branch =
        |spec: &Value| ["steam", "diesel"].into_iter().find(|name| spec.get(name).is_some());
    let switched = match (branch(first), branch(second)) {
        (Some(a), Some(b)) if a != b => Some(format!(".spec.{a}")),
        (_, _) => None,
    };
    let differs = |(path, value): &(&String, &Value)| {
        let lost = switched.as_ref().is_some_and(|branch| path.starts_with(branch.as_str()));
        lost || second_leaves.get(*path).is_some_and(|other| other != *value)
    };
    first_leaves.iter().filter(differs).map(|(path, _)| path.clone()).collect()
}

/// The paths that whoever declares a spec owns; a spec that says nothing is a field itself.
fn owned(spec: &Value) -> Vec<String> {
    let paths: Vec<String> = leaves(spec).into_keys().collect();
    if paths.is_empty() { vec![".spec".to_owned()] } else { paths }
}

fn sorted(mut paths: Vec<String>) -> Vec<String> {
    paths.sort();
    paths
}

proptest! {
    #[test]
    fn what_is_set_is_what_is_written(spec in spec()) {
        let found = Scope::Main.filter(ownership::fields(&object(&spec)));
        prop_assert_eq!(sorted(found.paths()), owned(&spec));
    }

    #[test]
    fn applied_twice_is_applied_once(live in spec(), spec in spec()) {
        let live = object(&live);
        let once = apply(&live, &spec, "me").expect("nobody else holds anything");
        let twice = apply(&once, &spec, "me").expect("nor now");
        prop_assert!(once.same(&twice), "{:?}\n{:?}", once, twice);
    }

    #[test]
    fn what_is_declared_is_there(live in spec(), spec in spec()) {
        let next = apply(&object(&live), &spec, "me").expect("nobody else holds anything");
        prop_assert!(ownership::changed(&next, &next).is_empty());
        let again = ownership::apply(&next, &object(&spec), &applier("check"), false);
        let changed = ownership::changed(&next, &again.expect("equal values never conflict"));
        prop_assert!(Scope::Main.filter(changed).is_empty());
    }

    #[test]
    fn declaring_nothing_any_more_leaves_what_was_before(before in spec(), spec in spec()) {
        let before = base(&before);
        let Ok(with) = apply(&before, &spec, "me") else { return Ok(()) };
        let after = apply(&with, &json!({}), "me").expect("giving up is never a conflict");
        let (before, after) = (without_managers(&before), without_managers(&after));
        prop_assert!(before.same(&after), "{:?}\n{:?}", before, after);
    }

    #[test]
    fn less_is_as_if_more_had_never_been(before in spec(), more in spec(), less in spec()) {
        let before = base(&before);
        let Ok(with) = apply(&before, &more, "me") else { return Ok(()) };
        match (apply(&with, &less, "me"), apply(&before, &less, "me")) {
            (Ok(shrunk), Ok(direct)) => {
                let (shrunk, direct) = (without_managers(&shrunk), without_managers(&direct));
                let same = shrunk.to_json_value(&Default::default());
                let direct = direct.to_json_value(&Default::default());
                prop_assert_eq!(normal(same), normal(direct));
            }
            (shrunk, direct) => prop_assert_eq!(shrunk.err(), direct.err()),
        }
    }

    #[test]
    fn a_conflict_is_a_difference(first in spec(), second in spec()) {
        let nothing = object(&json!({}));
        let live = ownership::apply(&nothing, &object(&first), &applier("first"), false);
        let live = live.expect("nobody holds anything");
        let expected = disputed(&first, &second);
        match ownership::apply(&live, &object(&second), &applier("second"), false) {
            Ok(_) => prop_assert_eq!(Vec::<String>::new(), expected),
            Err(conflicts) => {
                prop_assert!(conflicts.iter().all(|conflict| conflict.manager == "first"));
                let found = conflicts.into_iter().map(|conflict| conflict.field).collect();
                prop_assert_eq!(sorted(found), expected);
            }
        }
    }

    #[test]
    fn force_takes_exactly_what_is_disputed(first in spec(), second in spec()) {
        let nothing = object(&json!({}));
        let (one, two) = (applier("first"), applier("second"));
        let live = ownership::apply(&nothing, &object(&first), &one, false).expect("alone");
        let held = Managers::of(&live).get(&one).map(|entry| entry.fields.paths());
        let next = ownership::apply(&live, &object(&second), &two, true).expect("forced");
        let managers = Managers::of(&next);
        let paths = |who| managers.get(who).map(|entry| entry.fields.paths()).unwrap_or_default();
        let lost = disputed(&first, &second);
        let mut kept = held.unwrap_or_default();
        kept.retain(|path| !lost.contains(path));
        prop_assert_eq!(sorted(paths(&one)), sorted(kept));
        prop_assert_eq!(sorted(paths(&two)), owned(&second));
    }

    #[test]
    fn managers_of_different_fields_never_meet(spec in spec(), other in spec()) {
        let (mut mine, mut yours) = (spec, other);
        for name in ["image", "args", "settings", "steam", "diesel", "opaque"] {
            yours.as_object_mut().expect("an object").remove(name);
        }
        for name in ["replicas", "zones", "ports", "parts", "nested"] {
            mine.as_object_mut().expect("an object").remove(name);
        }
        let live = apply(&object(&json!({})), &mine, "me").expect("alone");
        let both = apply(&live, &yours, "you").expect("no field in common");
        let again = apply(&both, &mine, "me").expect("nor the other way round");
        prop_assert!(both.same(&again));
    }

    /// The bytes of what is declared are those of the set of it, wherever they are made without one.
    #[test]
    fn what_is_declared_is_written_as_its_set_is(
        spec in spec(), labels in btree_map("[a-c./]{1,3}", "[x-z]?", 0..4),
        codes in btree_map(-2..12_i32, text(), 0..5), twice: bool,
    ) {
        let mut value = json!({
            "metadata": {"name": "a", "project": "p", "labels": labels, "uid": "u"}, "spec": spec,
        });
        if twice && let Some(ports) = value["spec"]["ports"].as_array_mut()
            && let Some(first) = ports.first().cloned()
        {
            ports.push(first);
        }
        let gizmo = Object::from_json_value(&KIND, &value, &DecodeOptions::default());
        let gadget = json!({"metadata": value["metadata"], "spec": {"codes": codes, "limits": {}}});
        let gadget = Object::from_json_value(&GADGET, &gadget, &DecodeOptions::default());
        for (object, told) in [(gizmo.expect("valid").object, !twice), (gadget.expect("valid").object, true)] {
            for scope in [Scope::Main, Scope::Scale] {
                let expect = to_bytes(&scope.filter(ownership::fields(&object)));
                match ownership::declared_bytes(scope, &object) {
                    Some(bytes) => prop_assert_eq!(bytes, expect),
                    None => prop_assert!(!told, "it can be told"),
                }
            }
            prop_assert_eq!(ownership::declared_bytes(Scope::Status, &object), None);
        }
    }

    #[test]
    fn sets_of_fields_survive_their_encoding(paths in vec(vec(element(), 1..5), 0..8)) {
        let mut set = FieldSet::default();
        for path in &paths {
            set.insert(path);
        }
        prop_assert_eq!(from_bytes(&to_bytes(&set)), Some(set));
    }
}

fn element() -> impl Strategy<Value = Element> {
    prop_oneof![
        "[a-z.:\"{}/]{1,6}".prop_map(Element::Field),
        ("[a-z]{1,4}", ".{0,6}").prop_map(|(field, value)| Element::Key { field, value }),
        ".{0,6}".prop_map(|text| Element::Value(Value::from(text).to_string())),
        any::<i64>().prop_map(|number| Element::Value(number.to_string())),
    ]
}

/// Without the order of sets and of lists with a key, which merging does not keep.
fn normal(mut object: Value) -> Value {
    for name in ["zones", "ports"] {
        if let Some(items) = object["spec"].get_mut(name).and_then(Value::as_array_mut) {
            items.sort_by_key(Value::to_string);
        }
    }
    object
}
