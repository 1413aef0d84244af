"""Our weights in Keras layers, so that a cell can show that both give the same numbers.

Keras' torch backend computes matrix products of float64 in float32, so the
comparison is one in float32.
"""

from __future__ import annotations

import keras
import torch
from torch import nn

from tutorial_lib.keras_layers import TransformerDecoder, TransformerEncoder
from tutorial_lib.layers import DecoderLayer, EncoderLayer
from tutorial_lib.multihead import MultiHeadAttention


def to_keras_attention(ours: MultiHeadAttention) -> keras.layers.MultiHeadAttention:
    """Return a `keras.layers.MultiHeadAttention` with copies of our weights.

    Raises:
        ValueError: if ours has grouped heads, positions or no bias.
    """
    theirs = keras.layers.MultiHeadAttention(
        ours.heads, ours.head_width, output_shape=ours.width, dropout=ours.dropout
    )
    theirs.build((None, None, ours.width), (None, None, ours.memory_width))
    _copy_attention(theirs, ours)
    return theirs


def to_keras_encoder(ours: EncoderLayer) -> TransformerEncoder:
    """Return a `TransformerEncoder` with copies of our weights.

    Raises:
        ValueError: if ours has a form that the Keras layer has not.
    """
    theirs = TransformerEncoder(**_keras_arguments(ours))
    theirs.build((None, None, ours.config.width))
    _copy_attention(theirs.attention, ours.attention)
    _copy_feed_forward(theirs, ours)
    _copy_norm(theirs.norm_attention, ours.around_attention.norm)
    _copy_norm(theirs.norm_feed_forward, ours.around_feed_forward.norm)
    return theirs


def to_keras_decoder(ours: DecoderLayer) -> TransformerDecoder:
    """Return a `TransformerDecoder` with copies of our weights.

    Raises:
        ValueError: if ours has a form that the Keras layer has not.
    """
    theirs = TransformerDecoder(**_keras_arguments(ours))
    shape = (None, None, ours.config.width)
    theirs.build(shape, shape)
    _copy_attention(theirs.attention, ours.self_attention)
    _copy_attention(theirs.cross_attention, ours.cross_attention)
    _copy_feed_forward(theirs, ours)
    _copy_norm(theirs.norm_attention, ours.around_self.norm)
    _copy_norm(theirs.norm_cross, ours.around_cross.norm)
    _copy_norm(theirs.norm_feed_forward, ours.around_feed_forward.norm)
    return theirs


def _keras_arguments(ours: EncoderLayer | DecoderLayer) -> dict[str, object]:
    config = ours.config
    if config.norm_kind != "layer" or config.feed_forward not in ("relu", "silu"):
        raise ValueError(
            "the Keras layers have LayerNormalization and here relu or silu, "
            f"got norm_kind={config.norm_kind!r} and feed_forward={config.feed_forward!r}"
        )
    names = ("width", "heads", "hidden", "norm", "dropout")
    return {
        **{name: getattr(config, name) for name in names},
        "activation": config.feed_forward,
        "epsilon": config.norm_eps,
    }


def _copy_attention(theirs: keras.layers.MultiHeadAttention, ours: MultiHeadAttention) -> None:
    if ours.kv_heads != ours.heads or ours.has_position or ours.output_projection.bias is None:
        raise ValueError(
            "keras.layers.MultiHeadAttention needs equally many heads, no positions and a bias, got "
            f"kv_heads={ours.kv_heads}, heads={ours.heads}, position={ours.has_position}, "
            f"bias={ours.output_projection.bias is not None}"
        )
    heads = (ours.heads, ours.head_width)
    with torch.no_grad():
        for dense, linear in (
            (theirs.query_dense, ours.query_projection),
            (theirs.key_dense, ours.key_projection),
            (theirs.value_dense, ours.value_projection),
        ):
            # (H * Dh, D) -> (D, H, Dh)
            dense.kernel.assign(linear.weight.T.unflatten(1, heads))
            dense.bias.assign(linear.bias.unflatten(0, heads))
        # (D, H * Dh) -> (H, Dh, D)
        theirs.output_dense.kernel.assign(ours.output_projection.weight.T.unflatten(0, heads))
        theirs.output_dense.bias.assign(ours.output_projection.bias)


def _copy_feed_forward(theirs: TransformerEncoder | TransformerDecoder, ours: nn.Module) -> None:
    with torch.no_grad():
        for dense, linear in (
            (theirs.expand, ours.feed_forward.expand),
            (theirs.contract, ours.feed_forward.contract),
        ):
            dense.kernel.assign(linear.weight.T)
            dense.bias.assign(linear.bias)


def _copy_norm(theirs: keras.layers.LayerNormalization, ours: nn.LayerNorm) -> None:
    with torch.no_grad():
        theirs.gamma.assign(ours.weight)
        theirs.beta.assign(ours.bias)
