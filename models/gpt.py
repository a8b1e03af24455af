"""GPT: a decoder that predicts the next character of a text.

    x = tokens + positions;  x <- x + attention(norm(x));  x <- x + MLP(norm(x)), `depth` times
    logits = norm(x) E^T, where E are the weights of the tokens

As in Radford et al., "Language Models are Unsupervised Multitask Learners" (2019): norms before each part,
learned positions, GELU, an MLP four times as wide, and one matrix for the tokens and the logits. As in
nanoGPT, neither linear layers nor norms have biases. There is no dropout.

The defaults are `gpt_tiny` of the suites, with 0.1 million weights. Its context is the data set's. With width
768, depth 12, heads 12 and vocabulary 50,257 it has the size of GPT-2 small, 124 million weights at a context
of 1,024.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

import thinwire

_DEVIATION = 0.02  # of the initial weights


class Attention(nn.Module):
    """Causal self-attention: each position looks at itself and those before it."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.heads = heads
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
        self.register_buffer("later", torch.ones(context, context).triu(1).bool(), persistent=False)
        self.later: Tensor

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, L, width] to the same shape."""
        n, length, width = x.shape
        heads = self.queries_keys_values(x).view(n, length, 3, self.heads, width // self.heads)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4)
        # Written out: fused kernels of GPUs add in no fixed order, or refuse to.
        scores = queries @ keys.transpose(-1, -2) / math.sqrt(width // self.heads)
        shares = scores.masked_fill(self.later[:length, :length], -math.inf).softmax(-1)
        seen: Tensor = self.output((shares @ values).transpose(1, 2).reshape(n, length, width))
        return seen


class Block(nn.Module):
    """Attention and an MLP, each of which adds to its input."""

    def __init__(self, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.norm_1 = nn.LayerNorm(width, bias=False)
        self.attention = Attention(width, heads, context)
        self.norm_2 = nn.LayerNorm(width, bias=False)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, L, width] to the same shape."""
        x = x + self.attention(self.norm_1(x))
        wide = functional.gelu(self.widen(self.norm_2(x)))
        narrow: Tensor = self.narrow(wide)
        return x + narrow


class Model(thinwire.Model):
    task = "next_character"

    @dataclass
    class Config:
        width: Annotated[int, Field(ge=1)] = 64  # numbers in which a character is embedded
        depth: Annotated[int, Field(ge=1)] = 2  # blocks
        heads: Annotated[int, Field(ge=1)] = 4  # of each attention; they share the width
        # Rows of the matrix of tokens, of which a text may use a part; default: as many as its characters.
        vocabulary: Annotated[int, Field(ge=1)] | None = None

        def __post_init__(self) -> None:
            if self.width % self.heads:
                raise ValueError(f"{self.heads} heads cannot share a width of {self.width} evenly")

    config: Config

    def __init__(self, config: Config, shape: tuple[int, ...], classes: int) -> None:
        super().__init__(config, shape, classes)
        (context,) = shape
        vocabulary = classes if config.vocabulary is None else config.vocabulary
        if vocabulary < classes:
            raise thinwire.UserError(
                f"gpt: a vocabulary of {vocabulary} has no room for the {classes} characters of the data "
                "set: leave it out, or raise it"
            )
        self.tokens = nn.Embedding(vocabulary, config.width)
        self.positions = nn.Embedding(context, config.width)
        self.blocks = nn.ModuleList(Block(config.width, config.heads, context) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                # What adds to the sum over the blocks starts smaller, so that depth does not let it grow.
                adds = name.endswith(("output.weight", "narrow.weight"))
                nn.init.normal_(weight, std=_DEVIATION / math.sqrt(2 * config.depth) if adds else _DEVIATION)

    def forward(self, characters: Tensor) -> Tensor:
        """Map numbers of characters, int64 [N, L], to the logits of those that follow [N, L, vocabulary]."""
        places = torch.arange(characters.shape[1], device=characters.device)
        x = self.tokens(characters) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.norm(x), self.tokens.weight)

    def stages(self) -> list[list[nn.Module]]:
        """All layers see whole windows, so they are one stage; only the last norm is the classifier's own."""
        return [[self.tokens, self.positions, *self.blocks], [self.norm]]
