use super::*;

fn mk_event() -> Value {
    json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Event",
        "metadata": { "name": "web-1", "namespace": "demo" },
        "spec": {
            "regarding": { "kind": "Workload", "project": "demo", "name": "web", "uid": "7" },
            "reason": "Started", "type": "Normal", "count": 2,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:01:00.5Z",
            "source": "fleet", "action": "Start", "message": "it runs",
        },
    })
}

#[test]
fn an_event_takes_the_shape_of_the_core_group() {
    let core = core_event_of(mk_event());
    assert_eq!(core["involvedObject"]["namespace"], "demo");
    assert_eq!(core["involvedObject"]["name"], "web");
    assert_eq!(core["source"]["component"], "fleet");
    assert_eq!((&core["count"], &core["reason"]), (&json!(2), &json!("Started")));
    assert_eq!(core.get("spec"), None);
}

#[test]
fn an_event_takes_the_shape_of_its_own_group() {
    let shape = group_event_of(mk_event());
    assert_eq!(shape["regarding"]["namespace"], "demo");
    assert_eq!((&shape["note"], &shape["action"]), (&json!("it runs"), &json!("Start")));
    assert_eq!(shape["reportingController"], "fleet");
    assert_eq!(shape["eventTime"], "2026-01-01T00:00:00.000000Z");
    let series = json!({ "count": 2, "lastObservedTime": "2026-01-01T00:01:00.500000Z" });
    assert_eq!(shape["series"], series);
    let mut once = mk_event();
    once["spec"]["count"] = json!(1);
    assert_eq!(group_event_of(once).get("series"), None);
}

#[test]
fn both_shapes_read_as_the_event_that_they_were_made_of() {
    for shape in [core_event_of(mk_event()), group_event_of(mk_event())] {
        let mut own = own_event_of(shape.clone(), "core.orrery.dev/v1");
        if shape["apiVersion"] == "events.k8s.io/v1" {
            assert_eq!(own["spec"]["lastTimestamp"], "2026-01-01T00:01:00.500000Z");
            own["spec"]["lastTimestamp"] = json!("2026-01-01T00:01:00.5Z");
        }
        assert_eq!(own, mk_event(), "{shape}");
    }
}

#[test]
fn what_clients_tell_reads_as_an_event() {
    let cases = [
        // As programs in Go tell of it: what is not known is there, and empty.
        (
            json!({
                "involvedObject": { "kind": "Workload", "name": "web", "resourceVersion": "9", "fieldPath": "spec" },
                "reason": "R", "count": 0, "firstTimestamp": null, "eventTime": null, "type": "",
                "source": { "component": "ctl", "host": "h" }, "reportingComponent": "",
            }),
            json!({ "regarding": { "kind": "Workload", "name": "web" }, "reason": "R", "source": "ctl" }),
        ),
        (
            json!({
                "regarding": { "kind": "Workload", "name": "web", "namespace": "demo" },
                "reason": "R", "note": "n", "eventTime": "2026-01-01T00:00:00.000001Z",
                "series": { "count": 3, "lastObservedTime": "2026-01-01T00:00:09.000000Z" },
                "deprecatedCount": 2, "reportingController": "example.com/ctl", "reportingInstance": "i",
            }),
            json!({
                "regarding": { "kind": "Workload", "name": "web", "project": "demo" },
                "reason": "R", "message": "n", "count": 3, "source": "example.com/ctl", "instance": "i",
                "firstTimestamp": "2026-01-01T00:00:00.000001Z",
                "lastTimestamp": "2026-01-01T00:00:09.000000Z",
            }),
        ),
    ];
    for (shape, expect) in cases {
        assert_eq!(own_event_of(shape.clone(), "x/v1")["spec"], expect, "{shape}");
    }
}

#[test]
fn what_is_of_the_wrong_type_is_found() {
    let shape = json!({
        "reason": "R", "message": 5, "firstTimestamp": "", "lastTimestamp": null, "count": "2",
        "source": { "component": [] }, "series": { "count": 1 }, "involvedObject": "web",
    });
    let found: Vec<String> = problems(&shape).into_iter().map(|cause| cause.field).collect();
    let expect = ["involvedObject", "message", "count", "firstTimestamp", "source.component"];
    assert_eq!(found, expect);
    assert!(problems(&core_event_of(mk_event())).is_empty());
    assert!(problems(&group_event_of(mk_event())).is_empty());
}

#[test]
fn fields_are_called_as_in_their_shape() {
    let cases = [
        ("spec.regarding.kind", "involvedObject.kind", "regarding.kind"),
        ("spec.regarding.project", "involvedObject.namespace", "regarding.namespace"),
        ("spec.message", "message", "note"),
        ("spec.source", "reportingComponent", "reportingController"),
        ("spec.instance", "reportingInstance", "reportingInstance"),
        ("spec.type", "type", "type"),
        ("metadata.labels[a]", "metadata.labels[a]", "metadata.labels[a]"),
        ("metadata.name", "metadata.name", "metadata.name"),
    ];
    for (own, core, group) in cases {
        let found = (field_of(own, Shape::Core), field_of(own, Shape::Group));
        assert_eq!(found, (core.to_owned(), group.to_owned()), "{own}");
    }
}

#[test]
fn selectors_of_events_are_translated() {
    let cases = [
        ("involvedObject.name=web", "spec.regarding.name=web"),
        (
            "involvedObject.namespace=p,involvedObject.uid!=7",
            "spec.regarding.project=p,spec.regarding.uid!=7",
        ),
        (
            "regarding.kind=Workload,reportingController=x",
            "spec.regarding.kind=Workload,spec.source=x",
        ),
        ("metadata.name=x", "metadata.name=x"),
        ("", ""),
    ];
    for (core, own) in cases {
        assert_eq!(own_event_selector(core), own);
    }
}
