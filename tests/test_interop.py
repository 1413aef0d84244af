import pytest
import torch
from support import assert_raises, close, error_table, make, seeded, set_off
from torch import nn

import keras  # isort: skip  (support chooses its backend)

from tutorial_lib.interop import (
    to_torch_attention,
    to_torch_decoder_layer,
    to_torch_encoder_layer,
    to_torch_transformer,
)
from tutorial_lib.interop_keras import to_keras_attention, to_keras_encoder
from tutorial_lib.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, LayerConfig
from tutorial_lib.multihead import MultiHeadAttention
from tutorial_lib.relative_positions import ALiBi


def layer(kind=EncoderLayer, *args, **changes):
    config = LayerConfig(**{"width": 12, "heads": 3, "hidden": 20, **changes})
    return set_off(seeded(kind, config, *args))


@pytest.mark.parametrize("bias", [True, False])
def test_copies_have_the_same_settings_and_dtype_but_weights_of_their_own(bias):
    ours = layer(norm="pre", norm_eps=0.3, bias=bias).double().eval()
    if not bias:  # PyTorch then leaves out the shift of its norms too
        nn.init.zeros_(ours.around_attention.norm.bias)
        nn.init.zeros_(ours.around_feed_forward.norm.bias)
    theirs = to_torch_encoder_layer(ours)
    x = make(2, 5, 12)
    expected = ours(x)
    close(theirs(x), expected)
    assert not theirs.training
    nn.init.zeros_(theirs.linear1.weight)
    close(ours(x), expected, 0)


def test_keras_attention_also_with_a_memory_of_another_width():
    ours = set_off(seeded(MultiHeadAttention, 12, 3, memory_width=8, head_width=5))
    x, memory = make(2, 5, 12).float(), make(2, 7, 8).float()
    close(to_keras_attention(ours)(query=x, value=memory), ours(x, memory)[0], 3e-6)


@error_table(
    [
        (
            "grouped heads",
            lambda: to_torch_attention(MultiHeadAttention(12, 4, kv_heads=2)),
            ("(4, 3, 12, False)", "(2, 3, 12, False)"),
        ),
        (
            "positions",
            lambda: to_torch_attention(MultiHeadAttention(12, 4, position=ALiBi(4))),
            ("(4, 3, 12, False)", "(4, 3, 12, True)"),
        ),
        ("rms", lambda: to_torch_encoder_layer(layer(norm_kind="rms")), ("LayerNorm", "'rms'")),
        ("swiglu", lambda: to_torch_decoder_layer(layer(DecoderLayer, feed_forward="swiglu")), ("'swiglu'",)),
        (
            "no final norm",
            lambda: to_torch_transformer(layer(Encoder, 1), layer(Decoder, 1)),
            ("LayerNorm", "Identity", "final_norm=True"),
        ),
        (
            "keras: grouped heads",
            lambda: to_keras_attention(MultiHeadAttention(12, 4, kv_heads=2)),
            ("equally many heads", "kv_heads=2"),
        ),
        ("keras: no bias", lambda: to_keras_encoder(layer(bias=False)), ("a bias", "bias=False")),
        ("keras: rms", lambda: to_keras_encoder(layer(norm_kind="rms")), ("LayerNormalization", "'rms'")),
    ]
)
def test_what_the_other_library_has_not_is_named(wrong, says):
    assert_raises(wrong, says)


def test_keras_is_the_torch_backend_here():
    assert keras.backend.backend() == "torch" and isinstance(keras.ops.ones(1), torch.Tensor)
