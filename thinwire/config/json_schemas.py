"""The JSON schemas of files in `config/`, with which editors complete and check them."""

import json

from thinwire.config.configuration import Configuration
from thinwire.config.suite_schema import Suite
from thinwire.config.tuning_space import Tuning
from thinwire.optim.recipe import Strict

KINDS: dict[str, type[Strict]] = {"suite": Suite, "tuning": Tuning, "config": Configuration}


def json_schema(kind: str) -> str:
    """The keys, types and limits of a kind of files. What reads such a file checks more than these."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **KINDS[kind].model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"
