"""A text classifier in PyTorch: encoder, average of the real tokens, one output layer (chapters 10 and 11)."""

from __future__ import annotations

from torch import Tensor, nn

from tutorial_lib.encoder_only import EncoderOnly, EncoderOnlyConfig, mean_pooling
from tutorial_lib.validation import require_positive, require_probability


class TextClassifier(nn.Module):
    """Score the classes of a text; padding changes nothing. The Keras one is `build_text_classifier`.

    Args:
        config: of the encoder; it needs a padding_id.
        classes: how many.
        dropout: of the averaged vector.

    Raises:
        ValueError: if a number is impossible or the encoder has no padding_id.
    """

    def __init__(self, config: EncoderOnlyConfig, classes: int = 2, *, dropout: float = 0.0):
        super().__init__()
        require_positive(classes=classes)
        require_probability("dropout", dropout)
        if config.padding_id is None:
            raise ValueError("config must have a padding_id, got None")
        self.config = config
        self.encoder = EncoderOnly(config)
        self.dropout = nn.Dropout(dropout)
        self.output = nn.Linear(config.layer.width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Score the classes: ids (B, T) -> logits (B, classes); a text without a token has the mean 0."""
        vectors = self.encoder(ids)  # (B, T, D)
        mean = mean_pooling(vectors, ids != self.config.padding_id)  # (B, T, D) -> (B, D)
        return self.output(self.dropout(mean))
