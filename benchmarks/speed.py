"""A first look at speed: our attention and encoder layer beside PyTorch's and Keras's.

    python benchmarks/speed.py             # prints the table, writes benchmarks/results/speed.json

`products` is the time of the matrix products alone, which no implementation
can do without. The method is that of measuring.py.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "torch")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
import torch
from measuring import FOLDER, in_turns, ratio, store
from torch import Tensor, nn

from tutorial_lib.interop import to_torch_attention, to_torch_encoder_layer
from tutorial_lib.interop_keras import to_keras_attention, to_keras_encoder
from tutorial_lib.layers import EncoderLayer, LayerConfig
from tutorial_lib.multihead import MultiHeadAttention

RESULTS = FOLDER / "speed.json"
BATCH, WIDTH, HEADS, HIDDEN = 8, 256, 8, 1024
LENGTHS = (128, 512)


def attention_candidates() -> dict[str, Callable[[Tensor], Tensor]]:
    ours = MultiHeadAttention(WIDTH, HEADS)
    theirs, keras_layer = to_torch_attention(ours), to_keras_attention(ours)
    return {
        "ours": Candidate(ours, lambda x: ours(x)[0]),
        "torch": Candidate(theirs, lambda x: theirs(x, x, x, need_weights=False)[0]),
        "keras": Candidate(keras_layer, lambda x: keras_layer(query=x, value=x)),
    }


def weights_candidates() -> dict[str, Callable[[Tensor], Tensor]]:
    ours = MultiHeadAttention(WIDTH, HEADS)
    theirs, keras_layer = to_torch_attention(ours), to_keras_attention(ours)
    return {
        "ours": Candidate(ours, lambda x: ours(x, need_weights=True)[0]),
        "torch": Candidate(theirs, lambda x: theirs(x, x, x, average_attn_weights=False)[0]),
        "keras": Candidate(
            keras_layer, lambda x: keras_layer(query=x, value=x, return_attention_scores=True)[0]
        ),
    }


def encoder_candidates() -> dict[str, Callable[[Tensor], Tensor]]:
    ours = EncoderLayer(LayerConfig(WIDTH, HEADS, HIDDEN, norm="pre"))
    theirs, keras_layer = to_torch_encoder_layer(ours), to_keras_encoder(ours)
    return {
        "ours": Candidate(ours, ours),
        "torch": Candidate(theirs, theirs),
        "keras": Candidate(keras_layer, keras_layer),
    }


class Candidate:
    """One implementation, in training mode with gradients or in evaluation mode without."""

    def __init__(self, module: nn.Module | keras.Layer, call: Callable[[Tensor], Tensor]):
        self.module, self.call = module, call
        is_keras = isinstance(module, keras.Layer)
        self.parameters = (
            [v.value for v in module.trainable_variables] if is_keras else [*module.parameters()]
        )
        self.set_mode = (lambda training: None) if is_keras else module.train

    def run(self, x: Tensor, backward: bool) -> None:
        self.set_mode(backward)
        if not backward:
            with torch.no_grad():
                self.call(x)
            return
        output = self.call(x)
        torch.autograd.grad(output, [x, *self.parameters], torch.ones_like(output), allow_unused=True)


def products(length: int, with_feed_forward: bool) -> Callable[[bool], None]:
    """The matrix products of one call; the backward pass has two for each, of the same size."""
    rows = BATCH * length
    linear = [(WIDTH, WIDTH)] * 4 + ([(WIDTH, HIDDEN), (HIDDEN, WIDTH)] if with_feed_forward else [])
    flat = [(torch.randn(rows, a), torch.randn(a, b)) for a, b in linear]
    head = WIDTH // HEADS
    query = torch.randn(BATCH * HEADS, length, head)
    key, weights = query.mT.contiguous(), torch.randn(BATCH * HEADS, length, length)

    def run(backward: bool) -> None:
        for _ in range(3 if backward else 1):
            for a, b in flat:
                a @ b
            query @ key
            weights @ query

    return run


def measure(
    candidates: dict, length: int, backward: bool, with_feed_forward: bool, seconds: float
) -> list[dict]:
    """Run the candidates in turns for about so many seconds; return one row for each reference."""
    x = torch.randn(BATCH, length, WIDTH, requires_grad=backward)
    runs = {name: (lambda c=c: c.run(x, backward)) for name, c in candidates.items()}
    bare = products(length, with_feed_forward)
    runs["products"] = lambda: bare(backward)
    times = in_turns(runs, 9, seconds=seconds)
    rows = []
    for name in times:
        if name in ("ours", "products"):
            continue
        median, quartiles = ratio(times["ours"], times[name])
        rows.append(
            {
                "length": length,
                "pass": "forward+backward" if backward else "forward",
                "reference": name,
                "ours_ms": round(1e3 * statistics.median(times["ours"]), 2),
                "reference_ms": round(1e3 * statistics.median(times[name]), 2),
                "products_ms": round(1e3 * statistics.median(times["products"]), 2),
                "ratio": median,
                "quartiles": quartiles,
                "rounds": len(times[name]),
            }
        )
    return rows


def table(rows: list[dict]) -> str:
    head = (
        f"{'what':26}{'L':>4}  {'pass':17}{'against':9}{'ours ms':>9}{'other ms':>9}"
        f"{'products':>9}{'ratio':>7}  quartiles   rounds"
    )
    lines = [head, "-" * len(head)]
    for r in rows:
        lines.append(
            f"{r['what']:26}{r['length']:4}  {r['pass']:17}{r['reference']:9}{r['ours_ms']:9.1f}"
            f"{r['reference_ms']:9.1f}{r['products_ms']:9.1f}{r['ratio']:7.2f}  "
            f"{r['quartiles'][0]:.2f}-{r['quartiles'][1]:.2f}  {r['rounds']:7}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--seconds", type=float, default=4.0, help="CPU time for each size and pass")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    subjects = {
        "attention": (attention_candidates, False),
        "attention with weights": (weights_candidates, False),
        "encoder layer": (encoder_candidates, True),
    }
    rows, began = [], time.process_time()
    for what, (build, with_feed_forward) in subjects.items():
        candidates = build()
        for length in LENGTHS:
            for backward in (False, True):
                measured = measure(candidates, length, backward, with_feed_forward, arguments.seconds)
                rows += [{"what": what, **row} for row in measured]
    print(table(rows))
    setting = {"batch": BATCH, "width": WIDTH, "heads": HEADS, "hidden": HIDDEN, "dtype": "float32"}
    store(arguments.out, rows, setting, (torch, keras), began)


if __name__ == "__main__":
    main()
