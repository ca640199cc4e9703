"""Requests that schemathesis makes from our OpenAPI documents: good ones and bad ones.

The server must answer each with a code and a body that the document names, and never with an
error of its own. Watches are left out, because they do not end.
"""
import json
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
]
EXAMPLES = "6"


def fetch(path):
    request = urllib.request.Request(sys.argv[1] + path, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def without_watches(document):
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict):
                named = operation.get("parameters", [])
                operation["parameters"] = [one for one in named if one["name"] != "watch"]
    return document


def run(folder, name, document):
    file = pathlib.Path(folder) / (name.replace("/", "-") + ".json")
    file.write_text(json.dumps(without_watches(document)))
    program = pathlib.Path(sys.executable).with_name("schemathesis")
    words = [str(program), "run", str(file), "--url", sys.argv[1], "--checks", ",".join(CHECKS)]
    words += ["--max-examples", EXAMPLES, "--phases", "fuzzing", "--mode", "all"]
    words += ["--seed", "1", "--no-color", "--request-timeout", "20"]
    said = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert said.returncode == 0, f"{name}: {said.stdout}{said.stderr}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in ("apis/apps.orrery.dev/v1", "apis/core.orrery.dev/v1", "api/v1"):
            run(folder, name, fetch(f"/openapi/v3/{name}"))
    print("all good")


main()
