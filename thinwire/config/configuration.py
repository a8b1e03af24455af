"""What `snakemake` runs: the keys of `config/config.yaml`, and of `--config`, which replaces them.

Also the JSON schemas of this file, suites and tunings, with which editors complete and check them.
"""

import json
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from thinwire.base.options import Strict
from thinwire.config.suite_schema import Suite
from thinwire.config.tuning_space import Tuning


def _as_text(value: object) -> object:
    """A name may be a number, such as that of workers."""
    if type(value) not in (str, int, float):
        raise ValueError("write names with commas between them")
    return str(value)


Names = Annotated[str, BeforeValidator(_as_text, json_schema_input_type=str | float)]


class Configuration(Strict):
    """What `snakemake` runs. docs/running.md explains the keys."""

    suites: Names = Field(default="demo", description="files in config/, without .yaml, with commas between")
    tune: Names | None = Field(default=None, description="instead of suites: those whose methods are tuned")
    data: str | None = Field(
        default=None, description="has a folder for each data set whose files cannot be downloaded"
    )
    datasets: Names | None = Field(default=None, description="of all cells only these, by label")
    models: Names | None = Field(default=None, description="of all cells only these, by label")
    methods: Names | None = Field(default=None, description="of all cells only these, by label")
    workers: Names | None = Field(default=None, description="of all cells only these, such as w8n2")
    repetitions: int | None = Field(default=None, ge=1, le=10**9, description="only the first so many")

    @model_validator(mode="after")
    def _suites_or_tune(self) -> "Configuration":
        if "suites" in self.model_fields_set and self.tune is not None:
            raise ValueError("it has suites and tune: give one of them")
        return self

    @property
    def given(self) -> dict[str, str | int]:
        """The values that are not left out, by key."""
        return self.model_dump(exclude_unset=True, exclude_none=True)


KINDS: dict[str, type[Strict]] = {"suite": Suite, "tuning": Tuning, "config": Configuration}


def json_schema(kind: str) -> str:
    """The keys, types and limits of a kind of files. What reads such a file checks more than these."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **KINDS[kind].model_json_schema()}
    return json.dumps(schema, indent=1) + "\n"
