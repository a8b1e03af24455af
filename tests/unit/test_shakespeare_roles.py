"""Speaking roles as clients: who says what in a play, and that no window has what two say."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.unit.test_text import written
from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.data import partition, text


def dataset(**options):
    found = plugins.get("dataset", "shakespeare_roles").load()
    return found(resolve(found, options))


def roles_of(play):
    return sys.modules[type(dataset()).__module__].roles_of(play)


@pytest.fixture(scope="module")
def whole():
    """The data set, its windows, and the roles of each play."""
    made = dataset()
    plays = made.works(None)
    return made, made.fetch(None, None), plays, {name: roles_of(of.decode()) for name, of in plays.items()}


# In the format of the file, with all its ways to write a name and a direction.
PLAY = "\n\n".join(
    [
        "A SMALL PLAY",
        "PERSONS REPRESENTED.",
        "KING.\nPUCK, a Fairy.",
        "SCENE: Athens.",
        "\nACT I.",
        "SCENE I. Athens. A street.",
        "[Enter the KING, ORLANDO,\nand others.]",
        "KING.\nWho comes?\nYour name?",
        "ORLANDO.  [Kneels.]\nOrlando.",
        "[Rises.]",
        "Come hither, sir.",
        "P. Queen.\n{Aside.]\nA lie.",
        "PUCK\n          I go.\n  \t\nKING. Stay!",
        "2 Lord.",
        "He stays.",
        "KING and PUCK.\nWe all stay.",
        "     SONG.\nHey, ho.",
        "The rain.",
        "Puck.\n[Sings.] It rains.",
        "Scene II. The same.",
        "A room.",
        "[Exeunt [all but ORLANDO.] slowly.",
        "ORLANDO.\nAlone.",
        "THE END\n",
    ]
)


def test_speakers_are_told_from_directions_headings_and_lists():
    assert roles_of(PLAY) == {
        "KING": b"Who comes?\nYour name?\n\nStay!",
        "ORLANDO": b"Orlando.\n\nCome hither, sir.\n\nAlone.",
        "P. QUEEN": b"A lie.",
        "PUCK": b"          I go.\n\n It rains.",
        "2 LORD": b"He stays.",
        "KING AND PUCK": b"We all stay.",
    }
    assert roles_of("THE SONNETS\n\nI\n\nFROM fairest creatures\n\nPUCK.\nwe desire increase") == {}


def test_the_roles_of_shakespeare(whole):
    _, _, plays, roles = whole
    assert sum(map(bool, roles.values())) == 37
    said = [one for of_play in roles.values() for one in of_play.values()]
    assert (len(said), sum(len(one) >= 100 for one in said)) == (1_389, 1_134)
    # The rest is names, headings, directions and poems.
    assert sum(map(len, said)) / sum(map(len, plays.values())) == pytest.approx(0.85, abs=0.005)
    assert len(roles["MACBETH"]) == 41
    assert len(roles["MACBETH"]["MACBETH"]) > 25_000
    assert b"\n\nTo be, or not to be" in b"\n\n" + roles["HAMLET, PRINCE OF DENMARK"]["HAM"]


def test_roles_are_disjoint_and_complete_and_windows_cross_none(whole):
    made, raw, plays, roles = whole
    clients = made.client_of_each(raw.train_labels)
    assert len(clients) == len(raw.train_labels) == made.training_inputs()
    assert (len(np.unique(clients)), len(raw.train_labels), len(raw.test_labels)) == (1_145, 63_030, 3_566)
    to_train, to_test = (
        [said.decode() for title in titles for said in roles[title].values()]
        for titles in text.divided(plays)
    )
    inputs = written(raw.train_inputs)
    begin = 0
    assert clients.tolist() == sorted(clients.tolist())
    for said, windows in zip(to_train, np.bincount(clients, minlength=len(to_train)), strict=True):
        # All but what is left at the end, and its last character, which is only predicted.
        assert "".join(inputs[begin : begin + windows]) == said[: (len(said) - 1) // 64 * 64]
        begin += windows
    begins = [said[place : place + 64] for said in to_test for place in range(0, len(said) - 64, 64)]
    assert written(raw.test_inputs) == begins
    np.testing.assert_array_equal(raw.train_inputs[:, 1:], raw.train_labels[:, :-1])


def test_the_first_windows_and_their_roles(whole):
    few = dataset(windows=5000)
    raw = few.fetch(None, None)
    assert len(raw.train_inputs) == few.training_inputs() == 5000
    data = SimpleNamespace(name="roles", train_labels=torch.from_numpy(raw.train_labels), task=few.learning())
    np.testing.assert_array_equal(
        partition.clients_of(data, few), whole[0].client_of_each(np.empty(0))[:5000]
    )


def test_bad_input_is_one_sentence():
    longest = "^a context of 90,000 characters .* any role says, which is at most 28,807: choose .* 28,806$"
    with pytest.raises(UserError, match=longest):
        dataset(context=90_000).fetch(None, None)
    with pytest.raises(UserError, match="windows: input should be greater than or equal to 1"):
        dataset(windows=0)
