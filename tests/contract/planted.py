"""Methods with a planted bug, as files."""

import textwrap

from tests.contract.conftest import Subject
from thinwire import plugins

HEAD = '''"""A method with a planted bug."""

import random
from dataclasses import dataclass

import torch
import thinwire


class Leaking(thinwire.Server):
    """Answers with `leak`, which a method makes from the data that were pushed."""

    def update(self, pushes):
        return self.leak(abs(int(1e6 * sum(push["values"].sum() for push in pushes))))


class Method(thinwire.Method):
'''


def subject(tmp_path, body):
    """A method with this body. One that defines nothing is the body of `sync_gradients`."""
    body = textwrap.dedent(body).strip("\n")
    if "def " not in body and "class " not in body:
        body = "def sync_gradients(self):\n" + textwrap.indent(body, "    ")
    path = tmp_path / "planted.py"
    path.write_text(HEAD + textwrap.indent(body, "    ") + "\n")
    return Subject("planted", path, plugins.load_file("method", path, "planted"))
