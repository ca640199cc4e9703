// The JavaScript client of Kubernetes: custom objects, namespaces and a watch.
import assert from "node:assert/strict";

const [url, library] = process.argv.slice(2);
const k8s = await import(library);

const config = new k8s.KubeConfig();
config.loadFromOptions({
  clusters: [{ name: "o", server: url, skipTLSVerify: url.startsWith("http:") }],
  users: [{ name: "o" }],
  contexts: [{ name: "o", cluster: "o", user: "o" }],
  currentContext: "o",
});

const place = { group: "apps.orrery.dev", version: "v1", namespace: "default", plural: "workloads" };
const workload = (name) => ({
  apiVersion: "apps.orrery.dev/v1",
  kind: "Workload",
  metadata: { name },
  spec: { process: { command: "sleep" }, placement: { nodes: ["n1"] } },
});

const objects = config.makeApiClient(k8s.CustomObjectsApi);
const made = await objects.createNamespacedCustomObject({ ...place, body: workload("js") });
assert.equal(made.metadata.namespace, "default");

// A watch that begins after the creation sees the change and the deletion.
const seen = [];
const path = "/apis/apps.orrery.dev/v1/namespaces/default/workloads";
const deleted = new Promise((resolve, reject) => {
  const watch = new k8s.Watch(config);
  const query = { resourceVersion: made.metadata.resourceVersion };
  const onEvent = (type, object) => {
    seen.push(type);
    if (type === "DELETED" && object.metadata.name === "js") resolve();
  };
  watch.watch(path, query, onEvent, (error) => reject(error ?? new Error("ended"))).then((request) => {
    deleted.then(() => request.abort());
  }, reject);
});

const merge = k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.MergePatch);
const body = { spec: { stopGraceSeconds: 2 } };
const patched = await objects.patchNamespacedCustomObject({ ...place, name: "js", body }, merge);
assert.equal(patched.spec.stopGraceSeconds, 2);

const apply = k8s.setHeaderOptions("Content-Type", k8s.PatchStrategy.ServerSideApply);
const applied = await objects.patchNamespacedCustomObject(
  { ...place, name: "applied", body: workload("applied"), fieldManager: "js", force: true },
  apply,
);
assert.equal(applied.metadata.name, "applied");

const list = await objects.listNamespacedCustomObject(place);
assert.deepEqual(list.items.map((item) => item.metadata.name).sort(), ["applied", "js"]);

const stale = { ...patched, metadata: { ...patched.metadata, resourceVersion: "1" } };
await assert.rejects(
  objects.replaceNamespacedCustomObject({ ...place, name: "js", body: stale }),
  (error) => error.code === 409,
);

// A field of another manager is not changed unforced.
const other = { ...workload("applied"), spec: { ...workload("applied").spec, stopGraceSeconds: 7 } };
const declare = (fieldManager, body, force) =>
  objects.patchNamespacedCustomObject({ ...place, name: "applied", body, fieldManager, force }, apply);
await declare("js", other, true);
const disputed = { ...other, spec: { ...other.spec, stopGraceSeconds: 8 } };
await assert.rejects(declare("another", disputed, false), (error) => error.code === 409);
assert.equal((await declare("another", disputed, true)).spec.stopGraceSeconds, 8);

const counted = workload("scaled");
counted.spec.placement = { selector: { matchLabels: { a: "b" } }, replicas: 2 };
await objects.createNamespacedCustomObject({ ...place, body: counted });
const scaled = { ...place, name: "scaled", body: { spec: { replicas: 3 } } };
await objects.patchNamespacedCustomObjectScale(scaled, merge);
const scale = await objects.getNamespacedCustomObjectScale({ ...place, name: "scaled" });
assert.equal(scale.spec.replicas, 3);
await objects.deleteNamespacedCustomObject({ ...place, name: "scaled" });

const generic = k8s.KubernetesObjectApi.makeApiClient(config);
const read = await generic.read({ ...workload("js"), metadata: { name: "js", namespace: "default" } });
assert.equal(read.metadata.name, "js");

const core = config.makeApiClient(k8s.CoreV1Api);
await core.createNamespace({ body: { metadata: { name: "from-js" } } });
const namespaces = await core.listNamespace();
assert.ok(namespaces.items.some((item) => item.metadata.name === "from-js"));

await objects.deleteNamespacedCustomObject({ ...place, name: "js" });
await deleted;
assert.ok(seen.includes("MODIFIED"), seen);
console.log("all good");
process.exit(0);
