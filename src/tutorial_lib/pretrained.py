"""Weights of Hugging Face models in the classes of this library (used by chapters 12 and 13).

Each function takes a loaded model of the package `transformers`, reads its
configuration and copies its weights; it needs nothing from the network.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tutorial_lib.decoder_only import DecoderOnly, DecoderOnlyConfig
from tutorial_lib.encoder_only import EncoderOnly, EncoderOnlyConfig
from tutorial_lib.layers import LayerConfig
from tutorial_lib.multihead import MultiHeadAttention
from tutorial_lib.transformer import Transformer, TransformerConfig

# Hugging Face's names of activations that `FeedForward` has under another one.
ACTIVATION_NAMES = {"gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "swish": "silu"}


def bert_from_hugging_face(model: Any) -> EncoderOnly:
    """Copy a `BertModel` (its pooler is left out).

    Args:
        model: a loaded BertModel.

    Returns:
        an EncoderOnly in evaluation mode whose output is the model's last hidden state.

    Raises:
        ValueError: if the model is of another kind, or uses something that the class does not have.
    """
    hf = _config_of(model, "bert", is_decoder=False)
    layer = LayerConfig(
        hf.hidden_size,
        hf.num_attention_heads,
        hf.intermediate_size,
        norm="post",
        norm_eps=hf.layer_norm_eps,
        feed_forward=ACTIVATION_NAMES.get(hf.hidden_act, hf.hidden_act),
        dropout=hf.hidden_dropout_prob,
        attention_dropout=hf.attention_probs_dropout_prob,
    )
    ours = EncoderOnly(
        EncoderOnlyConfig(
            hf.vocab_size,
            layer,
            hf.num_hidden_layers,
            positions="learned",
            max_length=hf.max_position_embeddings,
            padding_id=hf.pad_token_id,
            segments=hf.type_vocab_size,
            embedding_norm=True,
        )
    )
    source = _Weights(model.state_dict(), "bert.")
    source.put(ours.embedding.tokens, "embeddings.word_embeddings")
    source.put(ours.embedding.positions.table, "embeddings.position_embeddings")
    source.put(ours.embedding.segments, "embeddings.token_type_embeddings")
    source.put(ours.embedding.norm, "embeddings.LayerNorm")
    for number, block in enumerate(ours.blocks.layers):
        at = f"encoder.layer.{number}."
        own = block.attention
        source.put(own.query_projection, at + "attention.self.query")
        source.put(own.key_projection, at + "attention.self.key")
        source.put(own.value_projection, at + "attention.self.value")
        source.put(own.output_projection, at + "attention.output.dense")
        source.put(block.around_attention.norm, at + "attention.output.LayerNorm")
        source.put(block.feed_forward.expand, at + "intermediate.dense")
        source.put(block.feed_forward.contract, at + "output.dense")
        source.put(block.around_feed_forward.norm, at + "output.LayerNorm")
    return _finish(ours, model)


def gpt2_from_hugging_face(model: Any) -> DecoderOnly:
    """Copy a `GPT2LMHeadModel`.

    Its `Conv1D` stores matrices transposed, and query, key and value in one.

    Args:
        model: a loaded GPT2LMHeadModel.

    Returns:
        a DecoderOnly in evaluation mode with the model's logits.

    Raises:
        ValueError: if the model is of another kind, or uses something that the class does not have.
    """
    hf = _config_of(
        model,
        "gpt2",
        tie_word_embeddings=True,
        scale_attn_weights=True,
        scale_attn_by_inverse_layer_idx=False,
        add_cross_attention=False,
    )
    layer = LayerConfig(
        hf.n_embd,
        hf.n_head,
        4 * hf.n_embd if hf.n_inner is None else hf.n_inner,
        norm="pre",
        norm_eps=hf.layer_norm_epsilon,
        feed_forward=ACTIVATION_NAMES.get(hf.activation_function, hf.activation_function),
        dropout=hf.resid_pdrop,
        attention_dropout=hf.attn_pdrop,
    )
    ours = DecoderOnly(DecoderOnlyConfig(hf.vocab_size, layer, hf.n_layer, "learned", hf.n_positions))
    source = _Weights(model.state_dict(), "transformer.")
    source.put(ours.embedding.tokens, "wte")
    source.put(ours.embedding.positions.table, "wpe")
    source.put(ours.blocks.final_norm, "ln_f")
    for number, block in enumerate(ours.blocks.layers):
        at = f"h.{number}."
        own = block.attention
        for third, projection in enumerate((own.query_projection, own.key_projection, own.value_projection)):
            source.put(projection, at + "attn.c_attn", transposed=True, part=(third, 3))
        source.put(own.output_projection, at + "attn.c_proj", transposed=True)
        source.put(block.around_attention.norm, at + "ln_1")
        source.put(block.feed_forward.expand, at + "mlp.c_fc", transposed=True)
        source.put(block.feed_forward.contract, at + "mlp.c_proj", transposed=True)
        source.put(block.around_feed_forward.norm, at + "ln_2")
    return _finish(ours, model)


def llama_from_hugging_face(model: Any) -> DecoderOnly:
    """Copy a `LlamaForCausalLM`, grouped key/value heads included.

    Args:
        model: a loaded LlamaForCausalLM.

    Returns:
        a DecoderOnly in evaluation mode with the model's logits.

    Raises:
        ValueError: if the model is of another kind, or has biases, another activation or stretched positions.
    """
    hf = _config_of(model, "llama", attention_bias=False, mlp_bias=False, hidden_act="silu")
    rope = getattr(hf, "rope_parameters", None) or getattr(hf, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind != "default":
        raise ValueError(f"the model must have plain rotary positions, rope_type='default', got {kind!r}")
    layer = LayerConfig(
        hf.hidden_size,
        hf.num_attention_heads,
        hf.intermediate_size,
        kv_heads=hf.num_key_value_heads,
        head_width=getattr(hf, "head_dim", None),
        norm="pre",
        norm_kind="rms",
        norm_eps=hf.rms_norm_eps,
        feed_forward="swiglu",
        bias=False,
        attention_dropout=hf.attention_dropout,
    )
    ours = DecoderOnly(
        DecoderOnlyConfig(
            hf.vocab_size,
            layer,
            hf.num_hidden_layers,
            positions="rotary_halves",
            max_length=hf.max_position_embeddings,
            rotary_base=rope["rope_theta"] if "rope_theta" in rope else hf.rope_theta,
            tie_weights=hf.tie_word_embeddings,
        )
    )
    source = _Weights(model.state_dict(), "")
    source.put(ours.embedding.tokens, "model.embed_tokens")
    source.put(ours.output, "lm_head")
    source.put(ours.blocks.final_norm, "model.norm")
    for number, block in enumerate(ours.blocks.layers):
        at = f"model.layers.{number}."
        _put_attention(source, block.attention, at + "self_attn.", "o_proj")
        source.put(block.around_attention.norm, at + "input_layernorm")
        source.put(block.feed_forward.gate, at + "mlp.gate_proj")
        source.put(block.feed_forward.up, at + "mlp.up_proj")
        source.put(block.feed_forward.down, at + "mlp.down_proj")
        source.put(block.around_feed_forward.norm, at + "post_attention_layernorm")
    return _finish(ours, model)


def marian_from_hugging_face(model: Any) -> Transformer:
    """Copy a `MarianMTModel`: the Transformer of 2017 as translation models use it.

    Args:
        model: a loaded MarianMTModel with one vocabulary for both languages.

    Returns:
        a Transformer in evaluation mode with the model's logits.

    Raises:
        ValueError: if the model is of another kind, or uses something that the class does not have.
    """
    hf = _config_of(model, "marian", tie_word_embeddings=True)
    pairs = {
        "attention_heads": (hf.encoder_attention_heads, hf.decoder_attention_heads),
        "ffn_dim": (hf.encoder_ffn_dim, hf.decoder_ffn_dim),
        "vocabulary": (hf.vocab_size, hf.decoder_vocab_size),
    }
    for name, (encoder, decoder) in pairs.items():
        if encoder != decoder:
            raise ValueError(f"encoder and decoder must have the same {name}, got {encoder} and {decoder}")
    layer = LayerConfig(
        hf.d_model,
        hf.encoder_attention_heads,
        hf.encoder_ffn_dim,
        norm="post",
        feed_forward=ACTIVATION_NAMES.get(hf.activation_function, hf.activation_function),
        dropout=hf.dropout,
        attention_dropout=hf.attention_dropout,
    )
    ours = Transformer(
        TransformerConfig(
            hf.vocab_size,
            hf.vocab_size,
            layer,
            hf.encoder_layers,
            hf.decoder_layers,
            padding_id=hf.pad_token_id,
            tie_weights=True,
            scale_embeddings=hf.scale_embedding,
            positions="sinusoidal_halves",
            output_bias=True,
        )
    )
    source = _Weights(model.state_dict(), "")
    source.put(ours.source_embedding.tokens, "model.shared")
    with torch.no_grad():
        ours.output.bias.copy_(source.tensors["final_logits_bias"][0])
    for number, block in enumerate(ours.encoder.layers):
        at = f"model.encoder.layers.{number}."
        _put_attention(source, block.attention, at + "self_attn.", "out_proj")
        source.put(block.around_attention.norm, at + "self_attn_layer_norm")
        _put_feed_forward(source, block, at)
    for number, block in enumerate(ours.decoder.layers):
        at = f"model.decoder.layers.{number}."
        _put_attention(source, block.self_attention, at + "self_attn.", "out_proj")
        source.put(block.around_self.norm, at + "self_attn_layer_norm")
        _put_attention(source, block.cross_attention, at + "encoder_attn.", "out_proj")
        source.put(block.around_cross.norm, at + "encoder_attn_layer_norm")
        _put_feed_forward(source, block, at)
    return _finish(ours, model)


class _Weights:
    """The tensors of a model by name, with or without the prefix of its base model."""

    def __init__(self, tensors: dict[str, Tensor], prefix: str):
        self.tensors = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}

    def put(
        self, module: nn.Module, name: str, *, transposed: bool = False, part: tuple[int, int] = (0, 1)
    ) -> None:
        """Copy `name.weight` and, if there is one, `name.bias`; `part` (i, n) takes the i-th of n parts."""
        for kind in ("weight", "bias"):
            target = getattr(module, kind, None)
            if target is None:
                continue
            if f"{name}.{kind}" not in self.tensors:
                raise ValueError(f"the model must have {name}.{kind}, got none of that name")
            tensor = self.tensors[f"{name}.{kind}"]
            tensor = (tensor.T if transposed and kind == "weight" else tensor).chunk(part[1])[part[0]]
            if tensor.shape != target.shape:
                raise ValueError(
                    f"{name}.{kind} must have shape {tuple(target.shape)}, got {tuple(tensor.shape)}"
                )
            with torch.no_grad():
                target.copy_(tensor)


def _put_attention(source: _Weights, own: MultiHeadAttention, at: str, output_name: str) -> None:
    source.put(own.query_projection, at + "q_proj")
    source.put(own.key_projection, at + "k_proj")
    source.put(own.value_projection, at + "v_proj")
    source.put(own.output_projection, at + output_name)


def _put_feed_forward(source: _Weights, block: nn.Module, at: str) -> None:
    source.put(block.feed_forward.expand, at + "fc1")
    source.put(block.feed_forward.contract, at + "fc2")
    source.put(block.around_feed_forward.norm, at + "final_layer_norm")


def _config_of(model: Any, kind: str, **wanted: Any) -> Any:
    """Return the configuration of a model of this kind; its settings must be those that our class has built in."""
    got = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    if got != kind:
        raise ValueError(f"model must be of the kind {kind!r}, got {got!r}")
    for name, value in wanted.items():
        found = getattr(model.config, name, value)
        if ACTIVATION_NAMES.get(found, found) != value:
            raise ValueError(f"a model of the kind {kind!r} must have {name}={value!r}, got {found!r}")
    return model.config


def _finish(ours: nn.Module, model: Any) -> nn.Module:
    parameter = next(model.parameters())
    return ours.to(device=parameter.device, dtype=parameter.dtype).eval()
