//! Schemas of the kinds as they are.
use super::*;

fn catalog() -> Catalog {
    Catalog::build().expect("the kinds of this build")
}

fn at<'a>(object: &'a Object, path: &str) -> &'a Attribute {
    let mut object = object;
    let mut found = None;
    for name in path.split('.') {
        let attribute = object.attribute(name).unwrap_or_else(|| panic!("no {name} of {path}"));
        if let Shape::Nested(_, inner) = &attribute.shape {
            object = inner;
        }
        found = Some(attribute);
    }
    found.expect("a path")
}

/// proves: HUB-20
#[test]
fn nested_objects_and_branches_stay_what_they_are() {
    let catalog = catalog();
    let workload = catalog.resources["orrery_workload"].object();
    assert_eq!(at(workload, "spec").mode, Mode::Required);
    // Two branches have a field of one name with another meaning.
    assert_eq!(at(workload, "spec.process.command").r#type(), Type::String);
    assert_eq!(at(workload, "spec.podman.command").r#type(), Type::list(Type::String));
    let Shape::Nested(Nesting::Single, spec) = &at(workload, "spec").shape else {
        panic!("an object")
    };
    let choice = Choice { required: true, branches: vec!["process".into(), "podman".into()] };
    assert_eq!(spec.choices, [choice]);
    // A disk is a path at one provider, and an object at another.
    let cluster = catalog.resources["orrery_cluster"].object();
    assert_eq!(at(cluster, "spec.qemu.disk").r#type(), Type::String);
    assert_eq!(at(cluster, "spec.aws.disk.size_gib").mode, Mode::Required);
    assert!(matches!(at(cluster, "spec.aws.disk").shape, Shape::Nested(Nesting::Single, _)));
    let addons = &at(catalog.resources["orrery_blueprint"].object(), "spec.addons").shape;
    assert!(matches!(addons, Shape::Nested(Nesting::List, _)), "their order has a meaning");
}

/// proves: HUB-20
#[test]
fn lists_that_are_sets_are_sets() {
    let catalog = catalog();
    let workload = catalog.resources["orrery_workload"].object();
    assert_eq!(at(workload, "spec.placement.nodes").r#type(), Type::set(Type::String));
    assert_eq!(at(workload, "spec.process.args").r#type(), Type::list(Type::String));
    let files = &at(workload, "spec.files").shape;
    assert!(
        matches!(files, Shape::Nested(Nesting::Keyed { key }, _) if key == "path"),
        "{files:?}"
    );
    let ports = &at(workload, "spec.podman.ports").shape;
    assert!(matches!(ports, Shape::Nested(Nesting::List, _)), "{ports:?}");
}

#[test]
fn rules_become_modes() {
    let catalog = catalog();
    let workload = catalog.resources["orrery_workload"].object();
    assert_eq!(at(workload, "metadata.name").mode, Mode::Required);
    assert!(at(workload, "metadata.name").immutable);
    assert_eq!(at(workload, "metadata.project").mode, Mode::Chosen);
    assert_eq!(at(workload, "metadata.uid").mode, Mode::Computed { lasting: true });
    assert_eq!(at(workload, "spec.restart_policy").mode, Mode::Defaulted(Value::text("always")));
    assert_eq!(at(workload, "spec.stop_grace_seconds").mode, Mode::Defaulted(Value::integer(10)));
    assert_eq!(at(workload, "spec.update_strategy").mode, Mode::Optional);
    assert_eq!(at(workload, "status.state").mode, Mode::Computed { lasting: false });
    let secret = catalog.resources["orrery_secret"].object();
    assert!(at(secret, "spec.data").sensitive && at(secret, "spec.string_data").sensitive);
    assert_eq!(at(secret, "spec.string_data").kept_in.as_deref(), Some("data"));
    let class = catalog.resources["orrery_machine_class"].object();
    assert_eq!(at(class, "spec.provider_spec").r#type(), Type::Dynamic);
}

#[test]
fn every_kind_has_a_type() {
    let catalog = catalog();
    let names: Vec<&str> = catalog.resources.keys().map(String::as_str).collect();
    for expected in
        ["orrery_http_route_group", "orrery_project", "orrery_traffic_split", "orrery_volume"]
    {
        assert!(names.contains(&expected), "{expected} in {names:?}");
    }
    assert!(!catalog.resources.contains_key("orrery_event"), "only the server writes events");
    assert!(catalog.data_sources.contains_key("orrery_event"));
    assert!(catalog.resources["orrery_project"].object().attributes.iter().all(|attribute| {
        !matches!(&attribute.shape, Shape::Nested(_, inner) if inner.attribute("project").is_some())
    }));
    let data = catalog.data_sources["orrery_workload"].object();
    assert_eq!(at(data, "metadata.name").mode, Mode::Required);
    assert_eq!(at(data, "spec.restart_policy").mode, Mode::Computed { lasting: false });
}

/// What Terraform itself demands of schemas: names, and no value of any type within a collection.
#[test]
fn schemas_are_such_as_the_host_takes() {
    let catalog = catalog();
    let all = catalog.resources.values().chain(catalog.data_sources.values());
    for of in all {
        take(of.object(), false, &of.name);
    }
}

fn take(object: &Object, collected: bool, place: &str) {
    for attribute in &object.attributes {
        let place = format!("{place}.{}", attribute.name);
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(attribute.name.chars().all(plain), "{place}");
        match &attribute.shape {
            Shape::Plain(r#type, _) => assert!(!collected || *r#type != Type::Dynamic, "{place}"),
            Shape::Nested(nesting, inner) => {
                take(inner, collected || *nesting != Nesting::Single, &place)
            }
        }
    }
}
