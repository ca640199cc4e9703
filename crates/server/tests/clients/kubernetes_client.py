"""The Python client of Kubernetes: the dynamic client and the one for custom objects."""
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


def main():
    configuration = Configuration()
    configuration.host = sys.argv[1]
    with ApiClient(configuration) as api_client:
        custom_objects(api_client)
        dynamic_client(api_client)
        typed_core(api_client)
    print("all good")


main()
