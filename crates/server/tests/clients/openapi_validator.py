"""Every OpenAPI document is checked by validators that others wrote."""
import json
import sys
import urllib.request

from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator


def fetch(path):
    request = urllib.request.Request(sys.argv[1] + path, headers={"Accept": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def check(name, validator, document):
    problems = [f"{list(error.absolute_path)}: {error.message}" for error in validator(document).iter_errors()]
    assert not problems, f"{name}: {problems[:5]}"


index = fetch("/openapi/v3")
assert "apis/apps.orrery.dev/v1" in index["paths"], index
for name, place in index["paths"].items():
    check(name, OpenAPIV30SpecValidator, fetch(place["serverRelativeURL"]))
check("v2", OpenAPIV2SpecValidator, fetch("/openapi/v2"))
print("all good")
