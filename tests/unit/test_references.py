"""BibTeX of a suite: its publications, in entries that BibTeX can read."""

import re

import pytest

from tests import project
from thinwire import plugins
from thinwire.config import yaml_file
from thinwire.publish.paper import declarations
from thinwire.publish.paper.declarations import SOURCES

ALL = yaml_file.mapping(SOURCES / "references.yaml", "references", "")


def test_a_suite_cites_its_methods_its_data_and_its_models_once():
    text = declarations.bibtex("text_demo")
    keys = re.findall(r"^@\w+\{(\w+),$", text, re.MULTILINE)
    assert {"diloco", "muloco", "aji2017", "stich2018sparsified", "goyal2017", "shakespeare"} <= set(keys)
    assert len(keys) == len(set(keys))
    assert "  title = {{Shakespeare}},\n  howpublished = {" in text


def test_entries_that_nobody_could_confirm_are_named_above():
    first = declarations.bibtex("demo").partition("\n")[0]
    assert first.endswith("confirms them: hsgd, hylo, multi_step_delay, ssd_sgd")
    assert declarations.bibtex("text_demo").startswith("@")


@pytest.mark.parametrize("name", project.METHODS)
def test_every_method_has_a_publication(name):
    assert [*declarations._entries(plugins.get("method", name), ALL)]


def test_an_entry_has_the_kind_of_its_publication():
    kinds = {"mp2": "article", "wnn": "inproceedings", "hylo": "phdthesis", "qsgd": "misc"}
    for key, kind in kinds.items():
        entry = declarations._entry(key, ALL[key])
        assert entry.startswith(f"@{kind}{{{key},\n  title = {{{{")
        assert entry.count("{") == entry.count("}")
    several = declarations._entry("hypernetworks", ALL["hypernetworks"])
    assert "author = {Ha, David and Dai, Andrew and Le, Quoc V.}" in several
    assert "author = {Liu and others}" in declarations._entry("mp2", ALL["mp2"])
