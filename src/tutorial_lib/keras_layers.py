"""The same layers in Keras 3: they keep masks alive, save and load (built in chapters 09 and 11).

Weight for weight they equal the PyTorch layers of `tutorial_lib.layers`:
`TransformerEncoder` and `TransformerDecoder` are one layer each (the names are
Keras Hub's), that is `EncoderLayer` and `DecoderLayer` there.
Keras chooses its backend when it is first imported: set KERAS_BACKEND=torch before.

What Keras asks of these classes and does not say aloud: `call` and `build` get
masks and shapes by the names of `call`'s tensors (x: `x_mask`, `x_shape`; with
one tensor `mask`, `input_shape`); a layer builds its inner layers in `build`, or
saved weights find no place; and it hands them its `dtype`.
"""

from __future__ import annotations

import keras
from keras import ops

from tutorial_lib.validation import require_choice, require_positive, require_probability

PACKAGE = "tutorial_lib"


@keras.saving.register_keras_serializable(package=PACKAGE)
class PositionEmbedding(keras.layers.Layer):
    """Add a vector for the position to each token vector.

    Args:
        max_length: longest sequence with learned positions; the sinusoidal ones have no limit.
        kind: "learned", or "sinusoidal" as in Vaswani et al. 2017, §3.5.

    Shapes: (B, T, D) -> (B, T, D)

    Raises:
        ValueError: if the kind is unknown or lacks its max_length, or a sequence is longer than that.
    """

    def __init__(self, max_length: int | None = None, kind: str = "learned", **kwargs):
        super().__init__(**kwargs)
        require_choice("kind", kind, ("learned", "sinusoidal"))
        if kind == "learned":
            require_positive(max_length=max_length)
        self.max_length, self.kind = max_length, kind
        self.supports_masking = True  # the mask of the inputs is the mask of the outputs

    def build(self, input_shape):
        if len(input_shape) != 3:
            raise ValueError(f"PositionEmbedding needs inputs of shape (B, T, D), got {tuple(input_shape)}")
        self.width = input_shape[-1]
        if self.kind == "learned":
            self.table = self.add_weight(
                name="table",
                shape=(self.max_length, self.width),
                initializer=keras.initializers.RandomNormal(stddev=0.02),
            )

    def call(self, inputs):
        length = ops.shape(inputs)[1]
        if self.kind == "sinusoidal":
            return inputs + ops.cast(self._sinusoids(length), inputs.dtype)
        # On the TensorFlow backend an open length is a tensor, no number.
        if isinstance(length, int) and length > self.max_length:
            raise ValueError(
                f"this layer has positions 0 to {self.max_length - 1} (max_length={self.max_length}), "
                f"got a sequence of {length} tokens"
            )
        return inputs + self.table[:length]

    def _sinusoids(self, length):
        exponents = ops.arange(0, self.width, 2, dtype="float32") / self.width
        positions = ops.arange(length, dtype="float32")[:, None]
        angles = positions / ops.power(10000.0, exponents)  # (T, ceil(D/2))
        pairs = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (T, ceil(D/2), 2)
        return ops.reshape(pairs, (-1, 2 * exponents.shape[0]))[:, : self.width]  # an odd D drops a cosine

    def compute_output_shape(self, input_shape):
        # Without it Keras would try `call` with a made-up length, which max_length may forbid.
        return input_shape

    def get_config(self):
        return {**super().get_config(), "max_length": self.max_length, "kind": self.kind}


class _TransformerLayer(keras.layers.Layer):
    """What the encoder's and the decoder's layer share: arguments, feed-forward network, frame of a sublayer."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        norm: str = "post",
        activation: str = "relu",
        dropout: float = 0.0,
        epsilon: float = 1e-5,
        **kwargs,
    ):
        super().__init__(**kwargs)
        require_positive(width=width, heads=heads, hidden=hidden)
        require_choice("norm", norm, ("post", "pre"))
        require_probability("dropout", dropout)
        if width % heads:
            raise ValueError(f"the width must be divisible by the number of heads, got {width} and {heads}")
        self.width, self.heads, self.hidden = width, heads, hidden
        self.norm, self.activation, self.dropout, self.epsilon = norm, activation, dropout, epsilon
        self.supports_masking = True
        policy = self.dtype_policy
        self.expand = keras.layers.Dense(hidden, activation=activation, name="expand", dtype=policy)
        self.contract = keras.layers.Dense(width, name="contract", dtype=policy)
        self.add = keras.layers.Add(dtype=policy)  # unlike "+", it keeps the mask
        self.drop = keras.layers.Dropout(dropout, dtype=policy)

    def _new_attention(self, name):
        # key_dim is the width of ONE head in Keras.
        return keras.layers.MultiHeadAttention(
            self.heads, self.width // self.heads, name=name, dtype=self.dtype_policy
        )

    def _new_norm(self, name):
        # Keras' own epsilon is 1e-3, a hundred times PyTorch's.
        return keras.layers.LayerNormalization(epsilon=self.epsilon, name=name, dtype=self.dtype_policy)

    def _frame(self, x, norm, sublayer, training):
        """Put normalisation, dropout and the residual sum around a sublayer, as `layers.Residual` does."""
        if self.norm == "post":
            return norm(self.add([x, self.drop(sublayer(x), training=training)]))
        return self.add([x, self.drop(sublayer(norm(x)), training=training)])

    def _feed_forward(self, x, training):
        return self.contract(self.drop(self.expand(x), training=training))

    def _build_feed_forward(self, shape):  # (B, T, D)
        _require_width(shape, self.width, type(self).__name__)
        self.expand.build(shape)
        self.contract.build((*shape[:-1], self.hidden))

    def compute_output_shape(self, input_shape, *others):
        return input_shape

    def get_config(self):
        own = ("width", "heads", "hidden", "norm", "activation", "dropout", "epsilon")
        return {**super().get_config(), **{name: getattr(self, name) for name in own}}


@keras.saving.register_keras_serializable(package=PACKAGE)
class TransformerEncoder(_TransformerLayer):
    """Self-attention and feed-forward network (Vaswani et al. 2017, §3.1).

    A pre-norm stack needs one more LayerNormalization after its last layer.

    Args:
        width:  D; heads must divide it.
        heads:  H, each of width D / H.
        hidden: width inside the feed-forward network.
        norm:   "post" (2017) or "pre".
        activation: any activation that Keras knows.
        dropout: of each sublayer's output and inside the feed-forward network, not of the attention weights.
        epsilon: of the layer normalisations.

    Shapes: (B, T, D) with its mask (B, T) -> (B, T, D) with the same mask

    Raises:
        ValueError: if a size, probability or name is impossible, or the inputs have another shape.
    """

    def __init__(self, width: int, heads: int, hidden: int, **kwargs):
        super().__init__(width, heads, hidden, **kwargs)
        self.attention = self._new_attention("attention")
        self.norm_attention = self._new_norm("norm1")
        self.norm_feed_forward = self._new_norm("norm2")

    def build(self, input_shape):
        self._build_feed_forward(input_shape)
        self.attention.build(input_shape, input_shape)
        self.norm_attention.build(input_shape)
        self.norm_feed_forward.build(input_shape)

    def call(self, inputs, mask=None, training=None):
        mask = None if mask is None else mask[:, None, :]  # of the keys: (B, T) -> (B, 1, T)
        x = self._frame(inputs, self.norm_attention, lambda h: _attend(self.attention, h, h, mask), training)
        return self._frame(x, self.norm_feed_forward, lambda h: self._feed_forward(h, training), training)


@keras.saving.register_keras_serializable(package=PACKAGE)
class TransformerDecoder(_TransformerLayer):
    """Causal self-attention, attention to the encoder's output, feed-forward network.

    The self-attention is causal in training and in evaluation alike. Each
    sequence brings its own mask: that of `memory` is never the target's.

    Args: as in `TransformerEncoder`.

    Shapes: inputs (B, T, D) and memory (B, S, D) with their masks (B, T) and
    (B, S) -> (B, T, D) with the mask of the inputs

    Raises:
        ValueError: as in `TransformerEncoder`.
    """

    def __init__(self, width: int, heads: int, hidden: int, **kwargs):
        super().__init__(width, heads, hidden, **kwargs)
        self.attention = self._new_attention("attention")
        self.cross_attention = self._new_attention("cross_attention")
        self.norm_attention = self._new_norm("norm1")
        self.norm_cross = self._new_norm("norm2")
        self.norm_feed_forward = self._new_norm("norm3")

    def build(self, inputs_shape, memory_shape):
        self._build_feed_forward(inputs_shape)
        _require_width(memory_shape, self.width, "TransformerDecoder's memory")
        self.attention.build(inputs_shape, inputs_shape)
        self.cross_attention.build(inputs_shape, memory_shape)
        for norm in (self.norm_attention, self.norm_cross, self.norm_feed_forward):
            norm.build(inputs_shape)

    def call(self, inputs, memory, inputs_mask=None, memory_mask=None, training=None):
        length = ops.shape(inputs)[1]
        mask = ops.tril(ops.ones((1, length, length), dtype="bool"))  # (1, T, T)
        if inputs_mask is not None:
            mask = ops.logical_and(mask, inputs_mask[:, None, :])  # -> (B, T, T)
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, :]  # (B, S) -> (B, 1, S)
        x = self._frame(inputs, self.norm_attention, lambda h: _attend(self.attention, h, h, mask), training)
        x = self._frame(
            x, self.norm_cross, lambda h: _attend(self.cross_attention, h, memory, memory_mask), training
        )
        return self._frame(x, self.norm_feed_forward, lambda h: self._feed_forward(h, training), training)


@keras.saving.register_keras_serializable(package=PACKAGE)
class MaskedAveragePooling(keras.layers.Layer):
    """Average the vectors of real tokens; without any it gives zeros, where Keras' own layer gives NaN.

    Shapes: (B, T, D) with its mask (B, T) -> (B, D)
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True

    def call(self, inputs, mask=None):
        mask = ops.ones_like(inputs[:, :, 0]) if mask is None else mask
        real = ops.cast(mask, inputs.dtype)[:, :, None]  # (B, T) -> (B, T, 1)
        return ops.sum(inputs * real, axis=1) / ops.maximum(ops.sum(real, axis=1), 1.0)

    def compute_mask(self, inputs, mask=None):
        return None  # the time axis is gone

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[2])


def _attend(attention, query, memory, mask):
    """Call Keras' attention so that a row without an allowed key attends to nothing.

    Keras would average all forbidden values. Such a row is given everything to
    attend to and then replaced by what the output layer makes of zeros: its bias.
    Shapes: query (B, T, D), memory (B, S, D), mask (B or 1, T or 1, S) -> (B, T, D)
    """
    if mask is None:
        return attention(query=query, value=memory)
    # Keras' attention takes the masks off its inputs; the next layer that reads the same memory needs them.
    masks = [(tensor, getattr(tensor, "_keras_mask", None)) for tensor in (query, memory)]
    not_empty = ops.any(mask, axis=-1, keepdims=True)  # (B or 1, T or 1, 1)
    mask_without_empty_rows = ops.logical_or(mask, ops.logical_not(not_empty))
    output = attention(query=query, value=memory, attention_mask=mask_without_empty_rows)
    for tensor, its_mask in masks:
        if its_mask is not None:
            tensor._keras_mask = its_mask
    return ops.where(not_empty, output, ops.cast(attention.output_dense.bias, output.dtype))


def _require_width(shape, width, name):
    if len(shape) != 3 or shape[-1] != width:
        raise ValueError(f"{name} needs inputs of shape (B, T, {width}), got {tuple(shape)}")
