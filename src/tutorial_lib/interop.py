"""Our weights in PyTorch's own layers, so that a cell can show that both give the same numbers.

The Keras side is in `interop_keras`, because importing Keras takes seconds.
"""

from __future__ import annotations

import warnings

import torch
from torch import nn

from tutorial_lib.layers import Decoder, DecoderLayer, Encoder, EncoderLayer, LayerConfig, Residual
from tutorial_lib.multihead import MultiHeadAttention


def to_torch_attention(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return an `nn.MultiheadAttention` (batch first) with copies of our weights.

    PyTorch stacks the projections of query, key and value into one matrix.

    Raises:
        ValueError: if ours has what PyTorch's has not: grouped heads, another head or memory
            width, positions.
    """
    usual = (ours.heads, ours.width // ours.heads, ours.width, False)
    got = (ours.kv_heads, ours.head_width, ours.memory_width, ours.has_position)
    if got != usual:
        raise ValueError(
            f"nn.MultiheadAttention needs (kv_heads, head_width, memory_width, position) = {usual}, got {got}"
        )
    bias = ours.output_projection.bias is not None
    theirs = nn.MultiheadAttention(ours.width, ours.heads, ours.dropout, bias=bias, batch_first=True)
    _like(theirs, ours)
    three = (ours.query_projection, ours.key_projection, ours.value_projection)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in three]))
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([p.bias for p in three]))
    theirs.out_proj.load_state_dict(ours.output_projection.state_dict())
    return theirs


def to_torch_encoder_layer(ours: EncoderLayer) -> nn.TransformerEncoderLayer:
    """Return an `nn.TransformerEncoderLayer` (batch first) with copies of our weights.

    Raises:
        ValueError: if ours has a form that PyTorch's has not.
    """
    theirs = nn.TransformerEncoderLayer(**_torch_arguments(ours.config))
    _like(theirs, ours)
    theirs.self_attn = to_torch_attention(ours.attention)
    _copy_rest(theirs, ours, ours.around_attention, ours.around_feed_forward)
    return theirs


def to_torch_decoder_layer(ours: DecoderLayer) -> nn.TransformerDecoderLayer:
    """Return an `nn.TransformerDecoderLayer` (batch first) with copies of our weights.

    Raises:
        ValueError: if ours has a form that PyTorch's has not.
    """
    theirs = nn.TransformerDecoderLayer(**_torch_arguments(ours.config))
    _like(theirs, ours)
    theirs.self_attn = to_torch_attention(ours.self_attention)
    theirs.multihead_attn = to_torch_attention(ours.cross_attention)
    _copy_rest(theirs, ours, ours.around_self, ours.around_cross, ours.around_feed_forward)
    return theirs


def to_torch_transformer(encoder: Encoder, decoder: Decoder) -> nn.Transformer:
    """Return an `nn.Transformer` (batch first) with copies of the weights of our two stacks.

    `nn.Transformer` normalises the output of both stacks even when its layers
    are post-norm, which the paper does not; so ours must be built with
    `final_norm=True`.

    Raises:
        ValueError: if a stack has no final norm, or a form that PyTorch's has not.
    """
    for name, stack in (("encoder", encoder), ("decoder", decoder)):
        if not isinstance(stack.final_norm, nn.LayerNorm):
            raise ValueError(
                f"nn.Transformer ends its {name} with a LayerNorm, got {type(stack.final_norm).__name__}; "
                "build the stack with final_norm=True"
            )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="enable_nested_tensor")
        theirs = nn.Transformer(
            **_torch_arguments(encoder.layers[0].config),
            num_encoder_layers=len(encoder.layers),
            num_decoder_layers=len(decoder.layers),
        )
    _like(theirs, encoder)
    theirs.encoder.layers = nn.ModuleList(to_torch_encoder_layer(layer) for layer in encoder.layers)
    theirs.decoder.layers = nn.ModuleList(to_torch_decoder_layer(layer) for layer in decoder.layers)
    theirs.encoder.norm.load_state_dict(encoder.final_norm.state_dict())
    theirs.decoder.norm.load_state_dict(decoder.final_norm.state_dict())
    return theirs


def _torch_arguments(config: LayerConfig) -> dict[str, object]:
    if config.norm_kind != "layer" or config.feed_forward not in ("relu", "gelu"):
        raise ValueError(
            "PyTorch's layers have LayerNorm and relu or gelu, "
            f"got norm_kind={config.norm_kind!r} and feed_forward={config.feed_forward!r}"
        )
    return {
        "d_model": config.width,
        "nhead": config.heads,
        "dim_feedforward": config.hidden,
        "dropout": config.dropout,
        "activation": config.feed_forward,
        "layer_norm_eps": config.norm_eps,
        "batch_first": True,
        "norm_first": config.norm == "pre",
        "bias": config.bias,
    }


def _copy_rest(theirs: nn.Module, ours: nn.Module, *frames: Residual) -> None:
    theirs.linear1.load_state_dict(ours.feed_forward.expand.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.contract.state_dict())
    for number, frame in enumerate(frames, 1):
        norm = {name: t for name, t in frame.norm.state_dict().items() if ours.config.bias or name != "bias"}
        getattr(theirs, f"norm{number}").load_state_dict(norm)


def _like(theirs: nn.Module, ours: nn.Module) -> None:
    parameter = next(ours.parameters())
    theirs.to(device=parameter.device, dtype=parameter.dtype).train(ours.training)
