"""The Python client of Kubernetes: the dynamic client and the one for custom objects."""
import datetime
import sys

from kubernetes import client, dynamic, watch
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.rest import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

GROUP, VERSION, PLURAL, PROJECT = "apps.orrery.dev", "v1", "workloads", "default"


def workload(name):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Workload",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"process": {"command": "sleep"}, "placement": {"nodes": ["n1"]}},
    }


def custom_objects(api_client):
    api = client.CustomObjectsApi(api_client)
    place = (GROUP, VERSION, PROJECT, PLURAL)
    made = api.create_namespaced_custom_object(*place, workload("custom"))
    assert made["metadata"]["namespace"] == PROJECT, made
    patch = {"spec": {"stopGraceSeconds": 3}}
    api.patch_namespaced_custom_object(*place, "custom", patch)
    found = api.get_namespaced_custom_object(*place, "custom")
    assert found["spec"]["stopGraceSeconds"] == 3, found
    listed = api.list_namespaced_custom_object(*place, label_selector="app=custom")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["custom"], listed
    assert api.list_cluster_custom_object(GROUP, VERSION, PLURAL)["items"], "everywhere"
    stale = dict(found, metadata=dict(found["metadata"], resourceVersion="1"))
    try:
        api.replace_namespaced_custom_object(*place, "custom", stale)
        raise AssertionError("a stale version must be refused")
    except ApiException as refused:
        assert refused.status == 409, refused
    api.delete_namespaced_custom_object(*place, "custom")
    try:
        api.patch_namespaced_custom_object(*place, "absent", [{"op": "remove", "path": "/x"}])
        raise AssertionError("a list is no merge patch")
    except ApiException as refused:
        assert refused.status in (400, 404), refused


def counted(name, replicas):
    placement = {"selector": {"matchLabels": {"a": "b"}}, "replicas": replicas}
    return dict(workload(name), spec={"process": {"command": "sleep"}, "placement": placement})


def scales(api_client):
    api = client.CustomObjectsApi(api_client)
    place = (GROUP, VERSION, PROJECT, PLURAL)
    api.create_namespaced_custom_object(*place, counted("scaled", 2))
    scale = api.get_namespaced_custom_object_scale(*place, "scaled")
    assert scale["kind"] == "Scale" and scale["spec"]["replicas"] == 2, scale
    api.patch_namespaced_custom_object_scale(*place, "scaled", {"spec": {"replicas": 5}})
    found = api.get_namespaced_custom_object(*place, "scaled")
    assert found["spec"]["placement"]["replicas"] == 5, found
    status = {"status": {"message": "hello"}}
    patched = api.patch_namespaced_custom_object_status(*place, "scaled", status)
    assert patched["spec"]["placement"]["replicas"] == 5, patched
    api.delete_namespaced_custom_object(*place, "scaled")


def pages(api_client):
    api = client.CustomObjectsApi(api_client)
    place = (GROUP, VERSION, PROJECT, PLURAL)
    for number in range(5):
        api.create_namespaced_custom_object(*place, workload(f"page-{number}"))
    seen, token = [], None
    while token != "":
        options = {"_continue": token} if token else {}
        page = api.list_namespaced_custom_object(*place, limit=2, **options)
        seen += [item["metadata"]["name"] for item in page["items"]]
        left = page["metadata"].get("remainingItemCount", 0)
        token = page["metadata"].get("continue", "")
        assert left == max(5 - len(seen), 0), page["metadata"]
    assert seen == [f"page-{number}" for number in range(5)], seen
    api.delete_collection_namespaced_custom_object(*place)


def conflicts(api_client):
    found = dynamic.DynamicClient(api_client)
    api = found.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Workload")

    def declare(manager, seconds, force=False):
        body = workload("disputed")
        body["spec"]["stopGraceSeconds"] = seconds
        return api.server_side_apply(
            body=body, name="disputed", namespace=PROJECT,
            field_manager=manager, force_conflicts=force,
        )

    declare("one", 1)
    try:
        declare("two", 2)
        raise AssertionError("a field of another manager must not be changed")
    except ConflictError as refused:
        assert "stopGraceSeconds" in str(refused), refused
    assert declare("two", 2, force=True).spec.stopGraceSeconds == 2
    api.delete(name="disputed", namespace=PROJECT)


def dynamic_client(api_client):
    found = dynamic.DynamicClient(api_client)
    api = found.resources.get(api_version=f"{GROUP}/{VERSION}", kind="Workload")
    api.create(body=workload("dynamic"), namespace=PROJECT)
    merge = "application/merge-patch+json"
    patched = api.patch(
        name="dynamic", namespace=PROJECT, content_type=merge,
        body={"spec": {"stopGraceSeconds": 4}},
    )
    assert patched.spec.stopGraceSeconds == 4, patched
    applied = api.server_side_apply(
        body=workload("applied"), name="applied", namespace=PROJECT,
        field_manager="python", force_conflicts=True,
    )
    assert applied.metadata.name == "applied", applied
    names = {item.metadata.name for item in api.get(namespace=PROJECT).items}
    assert {"dynamic", "applied"} <= names, names
    seen = [event["object"].metadata.name for event in api.watch(namespace=PROJECT, timeout=2)]
    assert {"dynamic", "applied"} <= set(seen), seen
    try:
        stale = patched.to_dict()
        stale["metadata"]["resourceVersion"] = "1"
        api.replace(body=stale, namespace=PROJECT)
        raise AssertionError("a stale version must be refused")
    except ConflictError:
        pass
    api.delete(name="dynamic", namespace=PROJECT)
    try:
        api.get(name="absent", namespace=PROJECT)
        raise AssertionError("it is not there")
    except NotFoundError:
        pass


def typed_core(api_client):
    core = client.CoreV1Api(api_client)
    name = client.V1Namespace(metadata=client.V1ObjectMeta(name="from-python"))
    core.create_namespace(name)
    assert "from-python" in {item.metadata.name for item in core.list_namespace().items}
    core.list_event_for_all_namespaces()
    changes = watch.Watch()
    for event in changes.stream(core.list_namespace, timeout_seconds=30):
        if event["object"].metadata.name == "from-python":
            changes.stop()
    core.delete_namespace("from-python")
    assert client.VersionApi(api_client).get_code().major == "1"
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(verb="get", resource=PLURAL)
        )
    )
    answer = client.AuthorizationV1Api(api_client).create_self_subject_access_review(review)
    assert answer.status.allowed is True, answer


def reviews(api_client):
    """What a service asks that leaves it to the server who its clients are."""
    shown = client.V1TokenReview(spec=client.V1TokenReviewSpec(token="orrery1.nobody.guessed"))
    answer = client.AuthenticationV1Api(api_client).create_token_review(shown)
    assert answer.status.authenticated is False and answer.status.error, answer
    wanted = client.V1ResourceAttributes(verb="get", resource=PLURAL, namespace=PROJECT)
    spec = client.V1SubjectAccessReviewSpec(user="bob", resource_attributes=wanted)
    api = client.AuthorizationV1Api(api_client)
    answer = api.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
    assert answer.status.allowed is False and answer.status.reason, answer
    spec.groups = ["orrery:admins"]
    local = client.V1LocalSubjectAccessReview(spec=spec)
    answer = api.create_namespaced_local_subject_access_review(PROJECT, local)
    assert answer.status.allowed is True, answer


def definitions(api_client):
    """What there is, as tools read it that know kinds by their definitions."""
    api = client.ApiextensionsV1Api(api_client)
    found = {item.metadata.name: item for item in api.list_custom_resource_definition().items}
    one = found[f"{PLURAL}.{GROUP}"]
    assert one.spec.names.kind == "Workload" and one.spec.scope == "Namespaced", one
    version = one.spec.versions[0]
    assert version.name == VERSION and version.subresources.scale.spec_replicas_path, version
    read = api.read_custom_resource_definition(one.metadata.name)
    conditions = {one.type: one.status for one in read.status.conditions}
    assert conditions["Established"] == "True", read.status


def records(api_client):
    """What controllers write as they run: a lease to lead by, and events."""
    core, leases = client.CoreV1Api(api_client), client.CoordinationV1Api(api_client)
    now = datetime.datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=datetime.timezone.utc)
    spec = client.V1LeaseSpec(holder_identity="a", lease_duration_seconds=15, renew_time=now)
    lease = client.V1Lease(metadata=client.V1ObjectMeta(name="ctl.example.com"), spec=spec)
    held = leases.create_namespaced_lease(PROJECT, lease)
    assert held.spec.renew_time == now and held.spec.holder_identity == "a", held
    held.spec.holder_identity = "b"
    place = ("ctl.example.com", PROJECT)
    leases.replace_namespaced_lease(*place, held)
    try:
        leases.replace_namespaced_lease(*place, held)
        raise AssertionError("a stale version must be refused")
    except ApiException as refused:
        assert refused.status == 409, refused
    leases.delete_namespaced_lease(*place)
    event = client.CoreV1Event(
        metadata=client.V1ObjectMeta(generate_name="web."), reason="Synced", type="Normal",
        involved_object=client.V1ObjectReference(kind="Workload", name="web", namespace=PROJECT),
    )
    told = core.create_namespaced_event(PROJECT, event)
    counted = core.patch_namespaced_event(told.metadata.name, PROJECT, {"count": 2})
    assert counted.count == 2 and counted.involved_object.name == "web", counted


def main():
    configuration = Configuration()
    configuration.host = sys.argv[1]
    with ApiClient(configuration) as api_client:
        custom_objects(api_client)
        scales(api_client)
        pages(api_client)
        conflicts(api_client)
        dynamic_client(api_client)
        typed_core(api_client)
        reviews(api_client)
        definitions(api_client)
        records(api_client)
    print("all good")


main()
