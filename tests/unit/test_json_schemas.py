"""The JSON schemas with which editors complete and check suites, tunings and what Snakemake runs."""

import json
import os

import jsonschema
import pytest

from tests.project import SUITES
from thinwire.base import folders
from thinwire.config.configuration import KINDS, json_schema
from thinwire.config.yaml_file import parse
from thinwire.plugins import ROOT

SCHEMAS = {kind: json.loads(json_schema(kind)) for kind in KINDS}
TUNINGS = [f"config/tuning/{name}.yaml" for name in folders.below(ROOT / "config/tuning")]
FILES = [
    *(("suite", f"config/{name}.yaml") for name in SUITES),
    *(("tuning", path) for path in TUNINGS),
    *(("config", path) for path in ("config/config.yaml", ".test/config/config.yaml")),
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_that_is_committed_is_that_of_the_checker(kind):
    again = f"thinwire schema {kind} > config/{kind}.schema.json"
    assert (ROOT / f"config/{kind}.schema.json").read_text() == json_schema(kind), again


@pytest.mark.parametrize(("kind", "path"), FILES)
def test_each_file_names_its_schema_and_is_valid_under_it(kind, path):
    text = (ROOT / path).read_text()
    schema = os.path.relpath(ROOT / f"config/{kind}.schema.json", (ROOT / path).parent)
    assert text.startswith(f"# yaml-language-server: $schema={schema}\n")
    jsonschema.validate(parse(text, path), SCHEMAS[kind])


@pytest.mark.parametrize(
    ("kind", "path", "wrong"),
    [
        ("suite", "config/demo.yaml", {"recipes": {}}),
        ("suite", "config/demo.yaml", {"workers": ["4"]}),
        ("suite", "config/demo.yaml", {"repetitions": 0}),
        ("tuning", "config/tuning/demo.yaml", {"trials": 1}),
        ("tuning", "config/tuning/demo.yaml", {"space": {"rate": [0.1, 1.0]}}),
        ("config", "config/config.yaml", {"suite": "demo"}),
        ("config", "config/config.yaml", {"suites": ["demo"]}),
    ],
)
def test_an_editor_sees_what_is_wrong(kind, path, wrong):
    content = parse((ROOT / path).read_text(), path)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, **wrong}, SCHEMAS[kind])
