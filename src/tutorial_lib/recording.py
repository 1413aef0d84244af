"""Attention weights of a whole model, from the pass that computes its output (used from chapter 05 on)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from tutorial_lib.multihead import MultiHeadAttention


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, list[Tensor]]]:
    """Collect the weights that a model really uses, in the same pass that computes its output.

        with record_attention(model) as weights:
            model(ids)
        weights["layers.0.attention"][0]      # (B, H, T, S), one entry per call

    Args:
        model: anything that contains `MultiHeadAttention` layers.

    Yields:
        dict from the layer's name to the list of its weights, in the order of the calls, detached.

    Raises:
        ValueError: if the model has no such layer.
    """
    layers = {n: m for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)}
    if not layers:
        raise ValueError(f"{type(model).__name__} contains no MultiHeadAttention layer to record")
    recorded: dict[str, list[Tensor]] = {name: [] for name in layers}

    def ask(module, args, kwargs):
        return args, {**kwargs, "need_weights": True}

    handles = []
    for name, layer in layers.items():

        def keep(module, args, output, name=name):
            recorded[name].append(output[1].detach())

        handles += [layer.register_forward_pre_hook(ask, with_kwargs=True), layer.register_forward_hook(keep)]
    try:
        yield recorded
    finally:
        for handle in handles:
            handle.remove()
