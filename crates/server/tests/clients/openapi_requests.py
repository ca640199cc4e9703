"""Requests that schemathesis makes from our OpenAPI documents, in both directions.

Good ones must not be called malformed, bad ones must not be accepted, and whatever is asked, the
server must answer with a code and a body that the document names, and never with an error of its own.

A document cannot say everything. What is opaque (versions, tokens) or does not end (watches) is left out
here, in a copy. For good requests more is pinned down: that an object is of the project, the kind and the
name that stand in its path. Bad requests break what the document says and not a pin, so they are made from
it without these. Rules between fields are the server's own: 422 is a good answer.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "unsupported_method",
]
# What is neither malformed nor understood, such as a selector of strange letters, is asked only by the
# requests that are made to be bad.
JUDGED = {"positive": "positive_data_acceptance", "negative": "negative_data_rejection"}
SOAK = int(os.environ.get("ORRERY_SOAK", "1"))
EXAMPLES = str(6 * SOAK)
PHASES = "fuzzing" if SOAK == 1 else "coverage,fuzzing"
CONFIG = """
[checks]
positive_data_acceptance.expected-statuses = ["2xx", 403, 404, 405, 409, 422]
"""
LEFT_OUT = {
    "watch", "continue", "resourceVersion", "resourceVersionMatch", "sendInitialEvents",
    "allowWatchBookmarks", "timeoutSeconds",
}
LABELS = "^([a-z]{1,8}(=[a-z]{1,8})?(,[a-z]{1,8}!=[a-z]{1,8})?)?$"
# Where every request goes: an unknown project holds nothing, which is no error in this dialect.
PLACE = {"{namespace}": "default", "{name}": "fixed"}
PINNED = {
    "namespace": {"type": "string", "enum": ["default"]},
    "name": {"type": "string", "enum": ["fixed"]},
    # Under "Strict" fields are refused that a document cannot forbid.
    "fieldValidation": {"type": "string", "enum": ["Ignore", "Warn"]},
    "path": {"type": "string", "pattern": "^[a-z]{1,8}$"},
    "labelSelector": {"type": "string", "pattern": LABELS},
    "fieldSelector": {"type": "string", "pattern": "^(metadata[.]name=[a-z]{1,8})?$"},
    "fieldManager": {"type": "string", "pattern": "^[a-z]{1,8}$"},
    # What a day is, tools do not agree about: leap seconds, the year 0, and 24:00.
    "sinceTime": {"type": "string", "pattern": "^20[0-9]{2}-0[1-9]-1[0-9]T1[0-9]:[0-5][0-9]:[0-5][0-9]Z$"},
}


def fetch(path):
    request = urllib.request.Request(sys.argv[1] + path, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def declared(known):
    """Who applies says of what; the documents, as those of others, do not say it."""
    said = {"apiVersion": api_version(known), "kind": known["kind"]}
    properties = {key: {"type": "string", "enum": [value]} for key, value in said.items()}
    return {"type": "object", "required": list(said), "properties": properties}


def api_version(known):
    return "/".join(part for part in (known["group"], known["version"]) if part)


def pin_parameters(item, pinned):
    for operation in [item, *item.values()]:
        named = operation.get("parameters", []) if isinstance(operation, dict) else []
        for one in named:
            one["schema"] = pinned.get(one["name"], one["schema"])
        if isinstance(operation, dict) and "parameters" in operation:
            operation["parameters"] = [
                one for one in named
                if one["name"] not in LEFT_OUT and "{" + one["name"] + "}" not in PLACE
            ]
    patch = item.get("patch", {})
    # An operation of a patch needs what its kind needs, and a place that is there.
    patch.get("requestBody", {}).get("content", {}).pop("application/json-patch+json", None)
    apply = patch.get("requestBody", {}).get("content", {}).get("application/apply-patch+yaml")
    if apply and pinned:
        apply["schema"] = declared(patch["x-kubernetes-group-version-kind"])
    # Only who applies can insist.
    if patch:
        patch["parameters"] = [one for one in patch["parameters"] if one["name"] != "force"]


def pin_schema(name, schema):
    properties = schema.get("properties", {})
    known = schema.get("x-kubernetes-group-version-kind")
    if known:
        pins = {"apiVersion": api_version(known[0]), "kind": known[0]["kind"]}
    elif name == "meta.v1.DeleteOptions":
        pins = {"kind": "DeleteOptions"}
        properties.pop("preconditions", None)
    else:
        pins = {}
    for key, value in pins.items():
        properties[key] = {"type": "string", "enum": [value]}
    if name == "autoscaling.v1.Scale":
        properties["metadata"] = {"type": "object", "properties": {"name": PINNED["name"]}}


def pin_metadata(schemas):
    """What requests say of their object; answers say more, which is no contradiction."""
    metadata = schemas["orrery.meta.v1.ObjectMeta"]["properties"]
    word = {"type": "string", "pattern": "^[a-z]{1,8}$"}
    words = {"type": "object", "additionalProperties": word, "maxProperties": 0}
    metadata.update(labels=words, annotations=words)
    for own in set(metadata) - {"name", "namespace", "labels", "annotations", "description"}:
        del metadata[own]
    metadata.update(name=PINNED["name"], namespace=PINNED["namespace"])


def allow_null(schema):
    """In this dialect `null` is as good as absent; the documents, as those of others, do not say it."""
    for value in schema.values():
        if isinstance(value, dict):
            allow_null(value)
    for value in schema.get("properties", {}).values():
        value["nullable"] = True


def requests_of(document, mode):
    """The document with its requests pinned down and its answers as they are."""
    good = mode == "positive"
    pinned = json.loads(json.dumps(document))
    for path in list(pinned["paths"]):
        placed = path
        for variable, value in PLACE.items():
            placed = placed.replace(variable, value)
        pinned["paths"][placed] = pinned["paths"].pop(path)
    for item in pinned["paths"].values():
        pin_parameters(item, PINNED if good else {})
    own = pinned["components"]["schemas"]
    for name, schema in list(own.items()):
        if good:
            pin_schema(name, schema)
        allow_null(schema)
    if good and "orrery.meta.v1.ObjectMeta" in own:
        pin_metadata(own)
    # Answers are held against the schemas that were not touched.
    untouched = json.loads(json.dumps(document["components"]["schemas"]).replace(
        "#/components/schemas/", "#/components/schemas/answer."))
    own.update({f"answer.{name}": schema for name, schema in untouched.items()})
    for item in pinned["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and "responses" in operation:
                text = json.dumps(operation["responses"])
                text = text.replace("#/components/schemas/", "#/components/schemas/answer.")
                operation["responses"] = json.loads(text)
    return pinned


def run(folder, name, document, mode):
    file = pathlib.Path(folder) / (name.replace("/", "-") + f"-{mode}.json")
    file.write_text(json.dumps(requests_of(document, mode)))
    program = pathlib.Path(sys.executable).with_name("schemathesis")
    words = [str(program), "--config-file", "schemathesis.toml", "run", str(file)]
    words += ["--url", sys.argv[1], "--checks", ",".join([*CHECKS, JUDGED[mode]])]
    words += ["--max-examples", EXAMPLES, "--phases", PHASES, "--mode", mode]
    words += ["--seed", "1", "--no-color", "--request-timeout", "60", "--continue-on-failure"]
    words += ["--suppress-health-check", "all"]
    said = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    return "" if said.returncode == 0 else f"{name}, {mode}: {said.stdout}{said.stderr}"


def main():
    known = list(fetch("/openapi/v3")["paths"])
    smi = [name for name in known if "smi-spec.io" in name]
    own = [name for name in known if name not in smi]
    wanted = sys.argv[2:]
    chosen = {"smi": smi, "own": own}.get(wanted[0]) or wanted if wanted else known
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "schemathesis.toml").write_text(CONFIG)
        for name in chosen:
            document = fetch(f"/openapi/v3/{name}")
            failed += [run(folder, name, document, mode) for mode in ("positive", "negative")]
    failed = [one for one in failed if one]
    assert not failed, "\n".join(failed)
    print("all good")


main()
