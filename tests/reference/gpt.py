"""GPT's logits from the formula of its publication: one position and head after the other, in float64."""

import math

import numpy as np

EPSILON = 1e-5  # of the norms


def logits(weights, characters, depth, heads):
    """The logits of the characters that follow those of one window.

    Args:
        weights: arrays by name, as the model's state has them.
        characters: their numbers.
        depth: number of blocks.
        heads: number of heads.
    """
    tokens, positions = weights["tokens.weight"], weights["positions.weight"]
    rows = [tokens[character] + positions[place] for place, character in enumerate(characters)]
    for number in range(depth):
        own = {
            name.removeprefix(f"blocks.{number}."): weight
            for name, weight in weights.items()
            if name.startswith(f"blocks.{number}.")
        }
        rows = [row + seen for row, seen in zip(rows, _attention(own, rows, heads))]
        rows = [row + _mlp(own, row) for row in rows]
    return np.array([tokens @ _norm(row, weights["norm.weight"]) for row in rows])


def _norm(row, scale):
    centred = row - row.mean()
    return scale * centred / math.sqrt((centred**2).mean() + EPSILON)


def _attention(own, rows, heads):
    width = len(rows[0])
    each = width // heads
    # The first third of the rows of the matrix gives queries, the second keys, the third values.
    three = [own["attention.queries_keys_values.weight"] @ _norm(row, own["norm_1.weight"]) for row in rows]
    queries, keys, values = ([row[i * width : (i + 1) * width] for row in three] for i in range(3))
    found = []
    for place in range(len(rows)):
        parts = []
        for head in range(heads):
            part = slice(head * each, (head + 1) * each)
            scores = [queries[place][part] @ keys[k][part] / math.sqrt(each) for k in range(place + 1)]
            shares = [math.exp(score - max(scores)) for score in scores]
            total = sum(shares)
            parts.append(sum(share / total * values[k][part] for k, share in enumerate(shares)))
        found.append(own["attention.output.weight"] @ np.concatenate(parts))
    return found


def _mlp(own, row):
    wide = own["widen.weight"] @ _norm(row, own["norm_2.weight"])
    gelu = [x * (1 + math.erf(x / math.sqrt(2))) / 2 for x in wide]
    return own["narrow.weight"] @ np.array(gelu)
