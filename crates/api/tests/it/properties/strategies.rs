//! Objects and texts by chance.
use std::collections::BTreeMap;

use orrery_api::{Object, ObjectMeta};
use orrery_testkit::v1;
use proptest::{collection, option, prelude::*};
use serde_json::Value;

use crate::support::{gadget_kind, kind};

fn word() -> BoxedStrategy<String> {
    prop_oneof![
        "[a-z]{1,6}",
        "[ -~]{0,12}",
        "(yes|no|on|off|null|~|012|1e3|0x1f|true|-|---|\\.inf|#a|a: b|'|\"|\\|)",
        "\\PC{0,8}",
        any::<String>(),
    ]
    .boxed()
}

fn metadata() -> BoxedStrategy<ObjectMeta> {
    let map = || collection::hash_map(word(), word(), 0..3);
    let times = option::of(timestamp());
    ("[a-z]{1,8}", "[a-z]{1,8}", word(), map(), map(), any::<i64>(), times)
        .prop_map(
            |(name, project, description, labels, annotations, generation, creation_timestamp)| {
                ObjectMeta {
                    name,
                    project,
                    description,
                    labels,
                    annotations,
                    generation,
                    creation_timestamp,
                    ..Default::default()
                }
            },
        )
        .boxed()
}

fn timestamp() -> BoxedStrategy<prost_types::Timestamp> {
    (-62_135_596_800..253_370_000_000_i64, prop_oneof![Just(0), 0..1_000_000_000])
        .prop_map(|(seconds, nanos)| prost_types::Timestamp { seconds, nanos })
        .boxed()
}

fn duration() -> BoxedStrategy<prost_types::Duration> {
    (
        0..315_576_000_000_i64,
        prop_oneof![Just(0), 0..1_000_000_000_i32],
        prop_oneof![Just(1), Just(-1)],
    )
        .prop_map(|(seconds, nanos, sign)| prost_types::Duration {
            seconds: seconds * i64::from(sign),
            nanos: nanos * sign,
        })
        .boxed()
}

/// Any JSON whose numbers opaque data can hold.
pub fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..(1 << 53)).prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(|n| if n.fract() == 0.0 {
            Value::from(n as i64)
        } else {
            Value::from(n)
        }),
        word().prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("name".to_owned()),
        Just("zones".to_owned()),
        Just("ports".to_owned()),
        Just("config".to_owned()),
        Just("limits".to_owned()),
        Just("env".to_owned()),
        word(),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
    .boxed()
}

fn opaque(value: Value) -> prost_types::Value {
    use prost_types::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(value),
        Value::Number(number) => Kind::NumberValue(number.as_f64().expect("a number")),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => Kind::ListValue(prost_types::ListValue {
            values: items.into_iter().map(opaque).collect(),
        }),
        Value::Object(fields) => Kind::StructValue(opaque_struct(fields)),
    };
    prost_types::Value { kind: Some(kind) }
}

fn opaque_struct(fields: impl IntoIterator<Item = (String, Value)>) -> prost_types::Struct {
    let fields: BTreeMap<_, _> =
        fields.into_iter().map(|(key, value)| (key, opaque(value))).collect();
    prost_types::Struct { fields }
}

fn source() -> BoxedStrategy<v1::gadget_spec::Source> {
    use v1::gadget_spec::Source;
    prop_oneof![
        (option::of(word()), option::of(word()))
            .prop_map(|(name, pull_policy)| Source::Image(v1::Image { name, pull_policy })),
        option::of(word()).prop_map(|path| Source::Archive(v1::Archive { path })),
        word().prop_map(Source::Url),
    ]
    .boxed()
}

fn ports() -> BoxedStrategy<Vec<v1::Port>> {
    let port = (option::of("[a-d]"), option::of(any::<i32>()), option::of(word()))
        .prop_map(|(name, number, protocol)| v1::Port { name, number, protocol });
    collection::vec(port, 0..4).boxed()
}

fn limits() -> BoxedStrategy<v1::Limits> {
    let finite = prop::num::f64::NORMAL | prop::num::f64::ZERO;
    (option::of(finite), option::of(any::<i64>()))
        .prop_map(|(cpu, memory_bytes)| v1::Limits { cpu, memory_bytes })
        .boxed()
}

fn steps() -> BoxedStrategy<Vec<v1::Step>> {
    let step = (option::of(word()), collection::vec(word(), 0..3))
        .prop_map(|(verb, objects)| v1::Step { verb, objects });
    collection::vec(step, 0..3).boxed()
}

fn part() -> BoxedStrategy<v1::Part> {
    let leaf = option::of(word()).prop_map(|name| v1::Part { name, parts: Vec::new() });
    leaf.prop_recursive(3, 8, 3, |inner| {
        (option::of(word()), collection::vec(inner, 0..3))
            .prop_map(|(name, parts)| v1::Part { name, parts })
    })
    .boxed()
}

fn scalars() -> BoxedStrategy<v1::GadgetSpec> {
    let finite = prop::num::f32::NORMAL | prop::num::f32::ZERO;
    let numbers = (
        option::of(any::<i64>()),
        option::of(any::<i32>()),
        option::of(any::<u64>()),
        option::of(finite),
    );
    let texts = (option::of(word()), option::of(word()), option::of(word()));
    let payload = option::of(collection::vec(any::<u8>(), 0..16));
    (numbers, texts, payload, option::of(any::<bool>()), collection::vec(any::<i64>(), 0..3))
        .prop_map(
            |(
                (size_bytes, replicas, serial, ratio),
                (mode, token, home),
                payload,
                enabled,
                samples,
            )| {
                v1::GadgetSpec {
                    mode,
                    size_bytes,
                    replicas,
                    serial,
                    ratio,
                    token,
                    home,
                    payload,
                    enabled,
                    samples,
                    ..Default::default()
                }
            },
        )
        .boxed()
}

fn numbers() -> BoxedStrategy<v1::Numbers> {
    let narrow = (option::of(any::<i32>()), option::of(any::<u32>()), option::of(any::<i32>()));
    let wide = (option::of(any::<i64>()), option::of(any::<u64>()), option::of(any::<i64>()));
    let lists = (collection::vec(any::<i64>(), 0..4), collection::vec(any::<u64>(), 0..4));
    let map = collection::hash_map(any::<i32>(), any::<i64>(), 0..3);
    (narrow, wide, lists, map)
        .prop_map(|(narrow, many_bytes, (swings, wide), by_swing)| v1::Numbers {
            swinging: narrow.0,
            fixed: narrow.1,
            fixed_signed: narrow.2,
            swinging_wide: many_bytes.0,
            fixed_wide: many_bytes.1,
            fixed_signed_wide: many_bytes.2,
            swings,
            wide,
            by_swing,
        })
        .boxed()
}

fn spec() -> BoxedStrategy<v1::GadgetSpec> {
    let maps = (
        collection::hash_map(word(), word(), 0..3),
        collection::hash_map(word(), limits(), 0..3),
        collection::hash_map(any::<i32>(), word(), 0..3),
    );
    let opaques = (
        option::of(collection::btree_map(word(), any_json(), 0..3).prop_map(opaque_struct)),
        option::of(any_json().prop_map(opaque)),
        option::of(collection::vec(any_json().prop_map(opaque), 0..3)),
    );
    // Zones with a comma could not be told apart in the older version.
    let lists = (collection::vec("[a-z]{1,4}", 0..4), ports(), steps(), steps());
    let times = (option::of(timestamp()), option::of(duration()));
    (
        scalars(),
        option::of(source()),
        lists,
        maps,
        opaques,
        times,
        option::of(limits()),
        option::of(part()),
        option::of(numbers()),
    )
        .prop_map(|(scalars, source, lists, maps, opaques, times, limits, part, numbers)| {
            let (zones, ports, steps, exclusions) = lists;
            let (env, limits_by_name, codes) = maps;
            let (config, hint, trail) = opaques;
            let (not_before, timeout) = times;
            let trail = trail.map(|values| prost_types::ListValue { values });
            v1::GadgetSpec {
                source,
                zones,
                ports,
                steps,
                exclusions,
                env,
                limits_by_name,
                codes,
                config,
                hint,
                trail,
                not_before,
                timeout,
                limits,
                part,
                numbers,
                ..scalars
            }
        })
        .boxed()
}

fn status() -> BoxedStrategy<v1::GadgetStatus> {
    (word(), option::of(timestamp()), any::<bool>(), any::<i64>())
        .prop_map(|(phase, last_seen, ready, restarts)| v1::GadgetStatus {
            phase,
            last_seen,
            ready,
            restarts,
            conditions: Vec::new(),
        })
        .boxed()
}

/// A gadget that fits its definition, though not always its rules.
pub fn gadget() -> BoxedStrategy<Object> {
    (metadata(), option::of(spec()), option::of(status()))
        .prop_map(|(metadata, spec, status)| {
            let typed = v1::Gadget { metadata: Some(metadata), spec, status, ..Default::default() };
            Object::from_typed(&gadget_kind(), &typed).expect("a gadget")
        })
        .boxed()
}

/// A bundle whose releases have different names.
pub fn bundle() -> BoxedStrategy<Object> {
    let releases = collection::btree_map("[a-z]{1,4}", collection::vec(word(), 0..3), 0..4);
    (metadata(), option::of(word()), releases)
        .prop_map(|(metadata, owner, releases)| {
            let releases = releases
                .into_iter()
                .map(|(name, contents)| v1::Release { name: Some(name), contents })
                .collect();
            let spec = Some(v1::BundleSpec { owner, releases });
            let typed = v1::Bundle { metadata: Some(metadata), spec, ..Default::default() };
            Object::from_typed(&kind("Bundle"), &typed).expect("a bundle")
        })
        .boxed()
}

/// Bytes: noise, and good bytes with a few changes.
pub fn noise() -> BoxedStrategy<Vec<u8>> {
    let spoil = |(mut bytes, changes): (Vec<u8>, Vec<(usize, u8)>)| {
        for (at, byte) in changes {
            let length = bytes.len().max(1);
            if let Some(found) = bytes.get_mut(at % length) {
                *found = byte;
            }
        }
        bytes
    };
    let good = gadget().prop_map(|gadget| gadget.encode());
    let json = gadget().prop_map(|gadget| gadget.to_json(&Default::default()).into_bytes());
    let yaml = gadget().prop_map(|gadget| gadget.to_yaml(&Default::default()).into_bytes());
    let changes = || collection::vec((any::<usize>(), any::<u8>()), 0..6);
    prop_oneof![
        collection::vec(any::<u8>(), 0..200),
        (good, changes()).prop_map(spoil),
        (json, changes()).prop_map(spoil),
        (yaml, changes()).prop_map(spoil),
    ]
    .boxed()
}

/// Text made of what YAML and JSON are made of.
pub fn text_like() -> BoxedStrategy<String> {
    let piece = prop_oneof![
        Just("a"),
        Just(": "),
        Just("- "),
        Just("\n"),
        Just("  "),
        Just("{"),
        Just("}"),
        Just("["),
        Just("]"),
        Just(","),
        Just("&x "),
        Just("*x"),
        Just("---\n"),
        Just("'"),
        Just("\""),
        Just("|\n"),
        Just(">"),
        Just("? "),
        Just("!!str "),
        Just("<<"),
        Just("#"),
        Just("\t"),
        Just("kind: List\nitems:\n"),
        Just("kind: Gadget\napiVersion: testkit.orrery.dev/v1\n"),
        Just("spec:\n"),
        Just("%YAML 1.2\n"),
        Just("\\"),
        Just("="),
        Just("\u{feff}"),
        Just("é"),
    ];
    collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat()).boxed()
}
