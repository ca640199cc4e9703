//! Bytes are read as the library reads them that knows all definitions, whatever is in them.
use orrery_api::{Object, ObjectError};

use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};

use crate::objects::UNKNOWN;
use crate::properties::strategies::gadget;
use crate::support::gadget_kind;

/// One thing that happens to bytes on their way.
#[derive(Clone, Debug)]
enum Damage {
    Changed(Index, u8),
    Lost(Index),
    Added(Index, u8),
    Cut(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Changed(at, byte)),
        any::<Index>().prop_map(Damage::Lost),
        (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Added(at, byte)),
        any::<Index>().prop_map(Damage::Cut),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let length = bytes.len();
        if length == 0 {
            break;
        }
        match damage {
            Damage::Changed(at, byte) => bytes[at.index(length)] = *byte,
            Damage::Lost(at) => drop(bytes.remove(at.index(length))),
            Damage::Added(at, byte) => bytes.insert(at.index(length), *byte),
            Damage::Cut(at) => bytes.truncate(at.index(length)),
        }
    }
    bytes
}

/// A message without what two readers may keep or not: fields that protobuf's own messages do not have, and numbers
/// that equal nothing.
fn comparable(message: &mut DynamicMessage) -> bool {
    let own = message.descriptor().package_name() == "google.protobuf";
    if own && message.unknown_fields().next().is_some() {
        return false;
    }
    message.fields_mut().all(|(_, value)| is_comparable(value))
}

fn is_comparable(value: &mut Value) -> bool {
    match value {
        Value::Message(inner) => comparable(inner),
        Value::List(items) => items.iter_mut().all(is_comparable),
        Value::Map(entries) => entries.values_mut().all(is_comparable),
        Value::F32(number) => !number.is_nan(),
        Value::F64(number) => !number.is_nan(),
        _ => true,
    }
}

/// What the library makes of the bytes, as it writes it down again, with the type that the kind has.
fn by_the_library(bytes: &[u8]) -> Option<DynamicMessage> {
    let descriptor = gadget_kind().descriptor().clone();
    let mut read = DynamicMessage::decode(descriptor.clone(), bytes).ok()?;
    let kind = gadget_kind();
    read.set_field_by_name("api_version", Value::String(kind.api_version().to_owned()));
    read.set_field_by_name("kind", Value::String(kind.kind().to_owned()));
    Some(DynamicMessage::decode(descriptor, read.encode_to_vec().as_slice()).expect("its own"))
}

fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    let ours = Object::decode(&gadget_kind(), bytes);
    match (ours, by_the_library(bytes)) {
        (Ok(ours), Some(mut theirs)) => {
            if comparable(&mut theirs) {
                prop_assert!(ours.to_message() == theirs, "{ours:?}");
            }
        }
        (Err(ObjectError::Decode { .. }), None) => {}
        // It takes an entry of a map for one however it is written.
        (Err(ObjectError::Decode { problem, .. }), Some(_)) if problem.contains("written as") => {}
        (ours, theirs) => {
            prop_assert!(false, "{ours:?}, and the library: {}", theirs.is_some());
        }
    }
    Ok(())
}

/// A message in a message, so many times: a part of a part of a gadget.
fn nested(levels: usize) -> Vec<u8> {
    let within = |inner: Vec<u8>, key: &[u8]| {
        let mut out = key.to_vec();
        prost::encoding::encode_varint(inner.len() as u64, &mut out);
        [out, inner].concat()
    };
    // Field 2 of a part are its parts, field 23 of a spec is one, and field 4 of a gadget the spec.
    let parts = (0..levels).fold(Vec::new(), |inner, _| within(inner, &[0x12]));
    within(within(parts, &[0xba, 0x01]), &[0x22])
}

#[test]
fn what_is_wrong_with_bytes_is_said() {
    let deepest = nested(98);
    assert!(Object::decode(&gadget_kind(), &deepest).is_ok());
    assert!(by_the_library(&deepest).is_some());
    let cases: [(Vec<u8>, &str); 9] = [
        (vec![0x0a, 5, b'a'], "the bytes end within a field"),
        (vec![0x0a], "the bytes end within a field"),
        ([&[0x0a][..], &[0xff; 11]].concat(), "the bytes end within a field"),
        ([&[0x0a][..], &[0xff; 10], &[1]].concat(), "a number is longer than any can be"),
        (vec![0x07, 1], "the key of a field is none"),
        (vec![0xa3, 0x06, 0x04], "the key of a field is none"),
        (vec![0x08, 1], "apiVersion: written as Varint, which is not how its type is written"),
        (vec![0x0a, 1, 0xff], "apiVersion: text is not UTF-8"),
        (nested(99), "messages are nested more than 100 deep"),
    ];
    for (bytes, expect) in cases {
        let error = Object::decode(&gadget_kind(), &bytes).expect_err(expect);
        assert_eq!(error.to_string(), format!("bytes are not a Gadget: {expect}"), "{bytes:02x?}");
        assert!(by_the_library(&bytes).is_none(), "{expect}");
    }
}

/// However many there are, and in whichever order: a stranger may write them.
#[test]
fn fields_that_nobody_knows_are_kept_in_the_order_of_their_numbers() {
    let mut bytes = Vec::new();
    for number in (100_000..200_000_u64).rev() {
        prost::encoding::encode_varint(number << 3, &mut bytes);
        bytes.push(u8::try_from(number % 100).expect("less"));
    }
    let object = Object::decode(&gadget_kind(), &bytes).expect("a gadget");
    assert_eq!(object.record().unknown().count(), 100_000);
    assert_eq!(
        object.record().unknown().next().map(|it| it.to_vec()),
        Some(vec![0x80, 0xea, 0x30, 0])
    );
    assert!(Some(object.to_message()) == by_the_library(&bytes), "the same as the library reads");
}

/// A spec that comes in as many parts as an object has room for, each with a field that nobody knows, in falling order.
#[test]
fn a_message_may_come_in_very_many_parts() {
    let mut bytes = Vec::new();
    for number in (1000..101_000_u64).rev() {
        let mut part = Vec::new();
        prost::encoding::encode_varint(number << 3, &mut part);
        part.push(1);
        bytes.extend([0x22, u8::try_from(part.len()).expect("short")]);
        bytes.extend(part);
        // And an entry more for the struct in field 14: the key is of two letters.
        let key = [b'a' + (number % 26) as u8, b'a' + (number / 26 % 26) as u8];
        bytes.extend([0x22, 10, 0x72, 8, 0x0a, 6, 0x0a, 2, key[0], key[1], 0x12, 0]);
    }
    let object = Object::decode(&gadget_kind(), &bytes).expect("a gadget");
    let theirs = by_the_library(&bytes);
    assert!(Some(object.to_message()) == theirs, "the same as the library reads");
    let spec = object.spec().expect("a spec");
    assert_eq!(spec.unknown().count(), 100_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn damaged_bytes_are_read_or_refused_alike(
        one in gadget(), damages in prop::collection::vec(damage(), 0..6),
    ) {
        check(&damaged(one.encode(), &damages))?;
    }

    /// A message may come in parts; what comes later wins, or is laid over what came before.
    #[test]
    fn messages_in_parts_are_put_together_alike(
        one in gadget(), two in gadget(), damages in prop::collection::vec(damage(), 0..2),
    ) {
        check(&damaged([one.encode(), UNKNOWN.to_vec(), two.encode()].concat(), &damages))?;
    }
}
