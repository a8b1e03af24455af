"""What a method declares as nearly SSGD is checked when its module is loaded."""

import pytest

from thinwire import plugins

DECLARES = '''"""A method."""

import thinwire


class Method(thinwire.Method):
    equals_ssgd = [thinwire.InTheLimit({})]
'''


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ('{"bits": 32}, tolerance=0, reason="32 bits"', r"\{'bits': 32\}\): its tolerance .* above 0, not 0"),
        (
            '{"bits": 32}, tolerance="0.1", reason="32 bits"',
            "its tolerance must be a number above 0, not '0.1'",
        ),
        ('{"bits": 32}, tolerance=float("nan"), reason="32 bits"', "its tolerance .* not nan"),
        ('{"bits": 32}, tolerance=1e-3, reason=" "', "it needs a reason why"),
        ('[], tolerance=1e-3, reason="32 bits"', "its options must be a dictionary"),
    ],
)
def test_a_wrong_value_is_refused_with_the_line_of_the_module(arguments, message, tmp_path):
    path = tmp_path / "nearly.py"
    path.write_text(DECLARES.format(arguments))
    with pytest.raises(plugins.PluginError, match=rf"nearly.py, line 7: .*{message}"):
        plugins.load_file("method", path, "nearly")
