"""Models that generate, for the tests of generation: a table small enough to try every text, and the library's own."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from support import make, make_ids, seeded, set_off
from torch import nn

from tutorial_lib.decoder_only import DecoderOnly, DecoderOnlyConfig
from tutorial_lib.layers import LayerConfig
from tutorial_lib.recurrent import RecurrentConfig, RecurrentTranslator
from tutorial_lib.transformer import Transformer, TransformerConfig

V = 20  # of the library's models; 0 is padding


class Table(nn.Module):
    """The scores after a text are the sum of one row for each of its ids, another one at each place."""

    def __init__(self, vocabulary=4, *, padding_id=None, max_length=12, scale=1.0, seed=0):
        super().__init__()
        self.table = nn.Parameter(make(max_length, vocabulary, vocabulary, seed=seed) * scale)
        self.config, self.max_length = SimpleNamespace(padding_id=padding_id), max_length
        self.steps = []

    def start(self):
        return TableState()

    def step(self, ids, state, *, last_only=False):
        self.steps.append(ids.clone())
        state.ids = ids if state.ids is None else torch.cat([state.ids, ids], 1)
        rows = self.table[torch.arange(state.ids.size(1)), state.ids]  # (B, L, V)
        scores = rows.cumsum(1)[:, -ids.size(1) :]
        return scores[:, -1:] if last_only else scores

    def probabilities(self, text):
        """Of the next id, by a list of ids; the padding id has none."""
        scores = sum(self.table[place, one] for place, one in enumerate(text)).detach().clone()
        if self.config.padding_id is not None:
            scores[self.config.padding_id] = -math.inf
        return torch.softmax(scores, -1).tolist()


class TableState:
    ids = None

    def select(self, rows):
        self.ids = self.ids[rows]


def every_text(model, prompt, *, eos_ids, max_new_tokens):
    """All texts that can follow the prompt, with their log-probabilities, one at a time."""
    found = {}
    vocabulary = model.table.size(-1)
    for new in itertools.product(range(vocabulary), repeat=max_new_tokens):
        ends = [place for place, one in enumerate(new) if one in eos_ids]
        new = new[: ends[0] + 1] if ends else new
        if new in found or model.config.padding_id in new:
            continue
        chances = [model.probabilities([*prompt, *new[:place]])[one] for place, one in enumerate(new)]
        found[new] = sum(math.log(chance) for chance in chances)
    return found


def lively(module):
    """Large weights, so that what comes next depends on all that was read: small ones repeat one token."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in set_off(module.double()).parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def lively_reference(model):
    """The same for a model of Hugging Face's, whose tied matrices repeat a token even more readily."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            embeds = name.endswith(("shared.weight", "wte.weight", "embed_tokens.weight"))
            if name.endswith("bias"):
                parameter.zero_()
            elif parameter.dim() > 1 and parameter.requires_grad:
                noise = torch.randn(parameter.shape, generator=generator)
                parameter.copy_(noise if embeds else 0.3 * noise)
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.mul_(0.1)
    return model


def decoder_only(positions="rotary", **changes):
    layer = LayerConfig(12, 3, 20, kv_heads=1, norm="pre")
    settings = {"max_length": 16, "padding_id": 0, "tie_weights": False, **changes}
    return lively(seeded(DecoderOnly, DecoderOnlyConfig(V, layer, 2, positions, **settings)))


def transformer(**changes):
    layer = LayerConfig(12, 3, 20)
    config = TransformerConfig(V, V, layer, 2, 2, **{"tie_weights": False, **changes})
    return lively(seeded(Transformer, config))


def recurrent(attention="additive"):
    return lively(seeded(RecurrentTranslator, RecurrentConfig(V, V, 6, 8, attention)))


# Prompts may be padded on both sides, sources on the right.
NAMES_AND_SIDES = [
    ("decoder-only", "left"),
    ("decoder-only", "right"),
    ("transformer", "right"),
    ("none", "right"),
    ("additive", "right"),
    ("multiplicative", "right"),
]
BUILD = {
    "decoder-only": decoder_only,
    "transformer": transformer,
    "none": lambda: recurrent("none"),
    "additive": recurrent,
    "multiplicative": lambda: recurrent("multiplicative"),
}


def inputs(name, rows=3):
    """What the model of this name reads: prompts of different length, or starts and sources of different length."""
    lengths = [5, 2, 4][:rows]
    texts = [make_ids(length, seed=row + 3) for row, length in enumerate(lengths)]
    if name == "decoder-only":
        return [(text[None],) for text in texts]
    return [(torch.tensor([[1]]), text[None]) for text in texts]


def batched(parts, side="right", gap=0):
    """Stack the inputs of single rows, padded with 0 on one side."""
    columns = []
    for column in zip(*parts, strict=True):
        longest = max(part.size(1) for part in column) + gap
        pads = [longest - part.size(1) for part in column]
        columns.append(
            torch.cat(
                [
                    F.pad(part, (pad, 0) if side == "left" else (0, pad))
                    for part, pad in zip(column, pads, strict=True)
                ]
            )
        )
    return columns


def uncached(model, prompt, *source):
    """The scores of the id after a text, by reading all of it at once; the padding id is out."""
    with torch.no_grad():
        scores = model(*source, prompt)[0, -1]
    scores[0] = -math.inf
    return scores


def greedy_uncached(model, prompt, *source, max_new_tokens, eos_id=None):
    """One row, one whole forward pass for each new token: what the cached loop must give."""
    new = []
    while len(new) < max_new_tokens and eos_id not in new:
        text = torch.cat([prompt, torch.tensor([new], dtype=torch.long)], 1)
        new.append(int(uncached(model, text, *source).argmax()))
    return new
