"""A text classifier in Keras: embedding, encoder, average, one output layer (built in chapter 11)."""

from __future__ import annotations

import keras

from tutorial_lib.keras_layers import MaskedAveragePooling, PositionEmbedding, TransformerEncoder
from tutorial_lib.validation import require_choice, require_positive, require_probability


def build_text_classifier(
    vocabulary: int,
    *,
    width: int = 32,
    heads: int = 2,
    hidden: int = 64,
    layers: int = 1,
    classes: int = 1,
    positions: str = "sinusoidal",
    max_length: int | None = None,
    norm: str = "post",
    dropout: float = 0.0,
) -> keras.Model:
    """Build a classifier of token ids in which id 0 is padding and changes nothing.

    Args:
        vocabulary: number of ids, padding included.
        width, heads, hidden, norm, dropout: as in `TransformerEncoder`.
        layers:  number of encoder layers.
        classes: 1 for one probability (sigmoid), more for a distribution (softmax).
        positions: "sinusoidal", "learned" or "none", which sees a bag of words.
        max_length: longest text with learned positions.

    Returns:
        an uncompiled model: ids (B, T), int32 -> probabilities (B, classes)

    Raises:
        ValueError: if a size, probability or name is impossible.
    """
    require_positive(vocabulary=vocabulary, layers=layers, classes=classes)
    require_choice("positions", positions, ("sinusoidal", "learned", "none"))
    require_probability("dropout", dropout)
    ids = keras.Input((None,), dtype="int32", name="ids")
    x = keras.layers.Embedding(vocabulary, width, mask_zero=True, name="tokens")(ids)
    if positions != "none":
        x = PositionEmbedding(max_length, positions, name="positions")(x)
    for number in range(layers):
        x = TransformerEncoder(width, heads, hidden, norm=norm, dropout=dropout, name=f"encoder_{number}")(x)
    if norm == "pre":
        x = keras.layers.LayerNormalization(epsilon=1e-5, name="final_norm")(x)
    x = MaskedAveragePooling(name="average")(x)
    x = keras.layers.Dropout(dropout)(x)
    activation = "sigmoid" if classes == 1 else "softmax"
    return keras.Model(ids, keras.layers.Dense(classes, activation=activation, name="output")(x))
