"""The JSON schema with which editors complete and check suites."""

import json

import jsonschema
import pytest

from tests.project import SUITES
from thinwire.config import suite
from thinwire.config.yaml_file import parse
from thinwire.plugins import ROOT

SCHEMA = json.loads(suite.json_schema())


def test_the_schema_that_is_committed_is_that_of_the_checker():
    again = "thinwire schema > config/suite.schema.json"
    assert (ROOT / "config/suite.schema.json").read_text() == suite.json_schema(), again


@pytest.mark.parametrize("name", SUITES)
def test_each_suite_names_the_schema_and_is_valid_under_it(name):
    text = suite.path_of(name).read_text()
    schema = f"{'../' * name.count('/')}suite.schema.json"
    assert text.startswith(f"# yaml-language-server: $schema={schema}\n")
    jsonschema.validate(parse(text, name), SCHEMA)


@pytest.mark.parametrize("wrong", [{"recipes": {}}, {"workers": ["4"]}, {"repetitions": 0}])
def test_an_editor_sees_what_is_wrong(wrong):
    content = parse(suite.path_of("demo").read_text(), "demo")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**content, **wrong}, SCHEMA)
