//! Definitions that cannot be kept are refused, all of their problems at once.
use std::sync::Arc;

use orrery_api::{ConvertError, Convertor, Kind, Object, Scheme, SchemeBuilder, SchemeError};

/// Compiles a definition with our options beside it.
fn compile(body: &str) -> Vec<u8> {
    let options = include_str!("../../../../proto/orrery/options/v1/options.proto");
    let meta = include_str!("../../../../proto/orrery/meta/v1/meta.proto");
    let text = format!(
        "syntax = \"proto3\"; package t.v1;
         import \"google/protobuf/any.proto\";
         import \"orrery/meta/v1/meta.proto\"; import \"orrery/options/v1/options.proto\";
         {body}"
    );
    let mut resolver = protox::file::ChainFileResolver::new();
    resolver.add(protox::file::GoogleFileResolver::new());
    resolver.add(Files(vec![
        ("orrery/options/v1/options.proto", options.to_owned()),
        ("orrery/meta/v1/meta.proto", meta.to_owned()),
        ("t.proto", text),
    ]));
    let mut compiler = protox::Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file("t.proto").expect("a definition that compiles");
    compiler.encode_file_descriptor_set()
}

struct Files(Vec<(&'static str, String)>);

impl protox::file::FileResolver for Files {
    fn open_file(&self, name: &str) -> Result<protox::file::File, protox::Error> {
        match self.0.iter().find(|(known, _)| *known == name) {
            Some((name, text)) => protox::file::File::from_source(name, text),
            None => Err(protox::Error::file_not_found(name)),
        }
    }
}

/// A kind `Name` with this option text and spec.
fn kind(name: &str, options: &str, spec: &str) -> String {
    format!(
        "message {name} {{
           option (orrery.options.v1.kind) = {{ {options} }};
           string api_version = 1; string kind = 2;
           orrery.meta.v1.ObjectMeta metadata = 3; {name}Spec spec = 4;
         }}
         message {name}Spec {{ {spec} }}
         message {name}List {{
           string api_version = 1; string kind = 2;
           orrery.meta.v1.ListMeta metadata = 3; repeated {name} items = 4;
         }}"
    )
}

const THING: &str = "group: \"t\" version: \"v1\" plural: \"things\"";

fn field(rules: &str, declaration: &str) -> String {
    kind("Thing", THING, &format!("{declaration} = 1 [(orrery.options.v1.field) = {{ {rules} }}];"))
}

fn build(body: &str) -> Result<Scheme, SchemeError> {
    Scheme::builder().descriptors(&compile(body)).build()
}

#[track_caller]
fn refused(body: &str, expect: &[&str]) {
    let error = build(body).expect_err("a definition that cannot be kept");
    let found: Vec<String> = error.problems.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), expect.len(), "{found:?}");
    for (found, expect) in found.iter().zip(expect) {
        assert!(found.contains(expect), "{found} should say {expect}");
    }
}

#[test]
fn bad_rules_are_named() {
    let cases = [
        (
            field("default: \"\\\"x\\\"\"", "optional int32 f"),
            "expected an integer, found the string",
        ),
        (field("default: \"{\"", "optional int32 f"), "EOF while parsing"),
        (field("pattern: \"(\"", "optional string f"), "does not compile"),
        (field("set: true", "optional string f"), "set, key and atomic are for lists"),
        (field("set: true atomic: true", "repeated string f"), "say only one of"),
        (field("values: [\"a\"]", "optional int32 f"), "pattern and values are for strings"),
        (field("format: \"odd\"", "optional string f"), "format must be one of"),
        (field("default: \"1\"", "int32 f"), "must be optional"),
        (field("key: \"x\"", "repeated ThingSpec f"), "key \"x\" is not a string of its items"),
        (field("key: \"x\"", "repeated string f"), "key is for lists of messages"),
        (field("kept_in: \"f\"", "map<string, string> f"), "names a map of bytes beside it"),
        (field("kept_in: \"g\"", "map<string, bytes> f"), "kept_in is for a map of strings"),
        (kind("Thing", THING, "google.protobuf.Any f = 1;"), "google.protobuf.Any has no form"),
        (kind("Thing", THING, "enum E { A = 0; } E f = 1;"), "enumerated values are strings"),
        (kind("Thing", "group: \"T\" version: \"v1\" plural: \"things\"", ""), "group \"T\""),
        (
            kind(
                "Thing",
                &format!("{THING} columns: [{{name: \"X\" path: \"spec.x\" type: \"string\"}}]"),
                "",
            ),
            "there is no field spec.x",
        ),
        (
            kind(
                "Thing",
                &format!("{THING} columns: [{{name: \"X\" path: \"spec.x\" type: \"date\"}}]"),
                "optional string x = 1;",
            ),
            "spec.x is not a date",
        ),
        (
            kind(
                "Thing",
                THING,
                "repeated Item f = 1; message Item { optional string g = 1 [(orrery.options.v1.field) = {immutable: true}]; }",
            ),
            "immutable inside a list without key",
        ),
    ];
    for (body, expect) in cases {
        refused(&body, &[expect]);
    }
}

/// proves: HUB-02
#[test]
fn missing_lists_and_wrong_shapes_are_named() {
    let good = kind("Thing", THING, "");
    assert!(build(&good).is_ok());
    refused(
        &good.replace("message ThingList", "message Things"),
        &["list type t.v1.ThingList is missing"],
    );
    refused(
        &good.replace("repeated Thing items", "repeated ThingSpec items"),
        &["items of the kind"],
    );
    refused(
        &good.replace("orrery.meta.v1.ObjectMeta metadata = 3", "string metadata = 3"),
        &["metadata must be a message"],
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let rules = |rule: &str| format!("[(orrery.options.v1.field) = {{ {rule} }}]");
    let spec = format!(
        "optional string a = 1 {}; optional int32 b = 2 {};",
        rules("pattern: \"(\""),
        rules("format: \"name\"")
    );
    refused(&kind("Thing", THING, &spec), &["t.v1.ThingSpec.a", "t.v1.ThingSpec.b"]);
}

#[test]
fn duplicates_are_named() {
    let two = kind("Thing", THING, "") + &kind("Other", THING, "");
    refused(
        &two,
        &["plural \"t.orrery.dev/v1 things\" is registered by t.v1.Other and by t.v1.Thing"],
    );
    let short = |name: &str| {
        let options =
            format!("group: \"t\" version: \"v1\" plural: \"{name}s\" short_names: [\"x\"]");
        kind(name, &options.replace(name, &name.to_lowercase()), "")
    };
    refused(&(short("Aa") + &short("Bb")), &["short name \"x\" is registered by"]);
}

struct Nothing;

impl Convertor for Nothing {
    fn init(&self, hub: &Arc<Kind>, _: &[Arc<Kind>]) -> Result<(), ConvertError> {
        Err(ConvertError::MissingPart { part: "x".to_owned(), of: hub.kind().to_owned() })
    }
    fn to_hub(&self, hub: &Arc<Kind>, _: &[Object]) -> Result<Object, ConvertError> {
        Ok(Object::new(hub))
    }
    fn from_hub(&self, _: &Object, _: &[Arc<Kind>]) -> Result<Vec<Object>, ConvertError> {
        Ok(Vec::new())
    }
}

#[test]
fn functions_need_their_kind() {
    let thing = kind("Thing", THING, "");
    let spoke =
        kind("Old", "group: \"t\" version: \"v0\" plural: \"things\" spoke_of: \"t.v1.Thing\"", "");
    type Change = fn(SchemeBuilder) -> SchemeBuilder;
    let cases: [(String, Change, &str); 9] = [
        (
            thing.clone(),
            |b| b.defaulter("t.v1.No", |_| {}),
            "a defaulter is registered for t.v1.No",
        ),
        (thing.clone(), |b| b.validator("t.v1.No", |_, _| Vec::new()), "a validator is registered"),
        (thing.clone(), |b| b.convertor("t.v1.No", Arc::new(Nothing)), "a convertor is registered"),
        (thing.clone(), |b| b.convertor("t.v1.Thing", Arc::new(Nothing)), "is not a spoke"),
        (
            thing.clone(),
            |b| b.spoke("t.v1.No", "s", &[], Arc::new(Nothing)),
            "a spoke is registered",
        ),
        (thing.clone(), |b| b.spoke("t.v1.Thing", "s", &[], Arc::new(Nothing)), "cannot start"),
        (thing.clone(), |b| b.group_suffix("Not A Domain"), "group suffix \"Not A Domain\""),
        (thing.clone(), |b| b.descriptors(b"\xff"), "descriptor set cannot be read"),
        (thing + &spoke, |b| b.defaulter("t.v1.Old", |_| {}), "only hub kinds have defaults"),
    ];
    for (body, change, expect) in cases {
        let builder = Scheme::builder().descriptors(&compile(&body));
        let error = change(builder).build().expect_err("a registration that cannot be kept");
        assert!(error.to_string().contains(expect), "{error} should say {expect}");
    }
}

/// proves: HUB-03
#[test]
fn defaulters_run_on_every_instance() {
    let builder =
        Scheme::builder().descriptors(&compile(&kind("Thing", THING, "optional string a = 1;")));
    let scheme = builder.defaulter("t.v1.Thing", |thing| thing.set_annotation("by", "defaulter"));
    let scheme = scheme.build().expect("a good registration");
    let kind = scheme.resolve("", "things").expect("known");
    assert_eq!(Object::instantiate(&kind).annotation("by"), Some("defaulter"));
    let text = br#"{"apiVersion":"t.orrery.dev/v1","kind":"Thing","metadata":{"name":"a"}}"#;
    let read = scheme.read_json(text, &Default::default()).expect("good JSON").object;
    assert_eq!(read.annotation("by"), Some("defaulter"));
}
