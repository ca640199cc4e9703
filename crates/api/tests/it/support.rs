//! What the tests have in common.
use std::sync::{Arc, OnceLock};

use orrery_api::{DecodeError, DecodeOptions, Kind, Object, Scheme, Violation};
use serde_json::{Value, json};

/// Our own kinds and the test kinds.
pub fn scheme() -> &'static Scheme {
    static SCHEME: OnceLock<Scheme> = OnceLock::new();
    SCHEME.get_or_init(|| orrery_testkit::scheme().expect("the test kinds are well defined"))
}

pub fn kind(name: &str) -> Arc<Kind> {
    scheme().resolve("", name).expect("a known kind")
}

pub fn gadget_kind() -> Arc<Kind> {
    kind("Gadget")
}

/// A gadget with this spec, with defaults, as the server would see it.
#[track_caller]
pub fn mk_gadget(spec: Value) -> Object {
    mk(json!({
        "apiVersion": "testkit.orrery.dev/v1",
        "kind": "Gadget",
        "metadata": {"name": "g", "project": "p"},
        "spec": spec,
    }))
}

#[track_caller]
pub fn mk(value: Value) -> Object {
    scheme().read_value(&value, &DecodeOptions::default()).expect("a good resource").object
}

/// The problems of a gadget with this JSON.
#[track_caller]
pub fn problems(value: &Value) -> Vec<Violation> {
    match Object::from_json_value(&gadget_kind(), value, &DecodeOptions::default()) {
        Ok(_) => Vec::new(),
        Err(DecodeError::Invalid(problems)) => problems,
        Err(other) => panic!("not about values: {other}"),
    }
}

pub fn lines(violations: &[Violation]) -> Vec<String> {
    violations.iter().map(Violation::to_string).collect()
}
