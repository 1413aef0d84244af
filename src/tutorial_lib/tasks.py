"""What a model can learn from: pairs of sentences, labelled texts, running text, each as ids (chapters 10 and 11)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from tutorial_lib.batches import pad
from tutorial_lib.tokenizers import BOS_ID, EOS_ID, PAD_ID
from tutorial_lib.training import Task, cross_entropy_sum
from tutorial_lib.validation import require_positive

Ids = Sequence[int]


class TranslationTask:
    """Predict every token of the target, and its end, from the source and the tokens before.

    Args:
        sources, targets: ids without <bos>, <eos> and padding; one target for each source.

    Raises:
        ValueError: if numbers differ, there is no pair, or a source is empty.
    """

    def __init__(self, sources: Sequence[Ids], targets: Sequence[Ids]):
        if not len(sources) or len(sources) != len(targets):
            raise ValueError(f"each source needs one target, got {len(sources)} and {len(targets)}")
        if empty := [row for row, ids in enumerate(sources) if not len(ids)]:
            raise ValueError(f"a source must have at least one id, got none in row {empty[0]}")
        self.sources, self.targets = sources, targets
        self.lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]

    def fingerprint(self) -> str:
        """Return a checksum of the ids."""
        return _digest([*self.sources], [*self.targets])

    def weight(self, rows: Sequence[int]) -> int:
        """Return the number of target tokens, ends included."""
        return sum(len(self.targets[row]) + 1 for row in rows)

    def loss(
        self, model: nn.Module, rows: Sequence[int], device: torch.device, smoothing: float = 0.0
    ) -> Tensor:
        """Return the cross-entropy of these rows, summed over target tokens."""
        source = pad([self.sources[row] for row in rows], PAD_ID).to(device)  # (B, S)
        shifted = pad([[BOS_ID, *self.targets[row]] for row in rows], PAD_ID).to(device)  # (B, T)
        wanted = pad([[*self.targets[row], EOS_ID] for row in rows], PAD_ID).to(device)  # (B, T)
        return cross_entropy_sum(model(source, shifted), wanted, smoothing=smoothing, ignore=PAD_ID)


class ClassificationTask:
    """Predict the class of a text.

    Args:
        texts:  ids without padding.
        labels: one for each text.

    Raises:
        ValueError: if numbers differ, there is no text, or a text is empty.
    """

    def __init__(self, texts: Sequence[Ids], labels: Sequence[int]):
        if not len(texts) or len(texts) != len(labels):
            raise ValueError(f"each text needs one label, got {len(texts)} and {len(labels)}")
        if empty := [row for row, ids in enumerate(texts) if not len(ids)]:
            raise ValueError(f"a text must have at least one id, got none in row {empty[0]}")
        self.texts, self.labels = texts, labels
        self.lengths = [len(ids) for ids in texts]

    def fingerprint(self) -> str:
        """Return a checksum of ids and labels."""
        return _digest([*self.texts], [*self.labels])

    def weight(self, rows: Sequence[int]) -> int:
        """Return the number of texts."""
        return len(rows)

    def logits(self, model: nn.Module, rows: Sequence[int], device: torch.device) -> Tensor:
        """Return the scores of the classes, (B, classes)."""
        return model(pad([self.texts[row] for row in rows], PAD_ID).to(device))

    def loss(
        self, model: nn.Module, rows: Sequence[int], device: torch.device, smoothing: float = 0.0
    ) -> Tensor:
        """Return the cross-entropy of these rows, summed over texts."""
        wanted = torch.tensor([self.labels[row] for row in rows], device=device)
        return cross_entropy_sum(self.logits(model, rows, device), wanted, smoothing=smoothing)


class LanguageTask:
    """Predict every next token of running text, cut into blocks.

    A block begins with the token before its first target, so that each token
    of the text but the first is a target once.

    Args:
        ids:   of the whole text; <eos> between its sentences.
        block: number of targets in one block, the longest context.

    Raises:
        ValueError: if the text has fewer than two ids.
    """

    def __init__(self, ids: Ids, block: int):
        require_positive(block=block)
        if len(ids) < 2:
            raise ValueError(f"ids must hold at least two, got {len(ids)}")
        self.blocks = [list(ids[start : start + block + 1]) for start in range(0, len(ids) - 1, block)]
        self.lengths = [len(ids) for ids in self.blocks]

    def fingerprint(self) -> str:
        """Return a checksum of the blocks."""
        return _digest(self.blocks, [])

    def weight(self, rows: Sequence[int]) -> int:
        """Return the number of targets."""
        return sum(len(self.blocks[row]) - 1 for row in rows)

    def loss(
        self, model: nn.Module, rows: Sequence[int], device: torch.device, smoothing: float = 0.0
    ) -> Tensor:
        """Return the cross-entropy of these blocks, summed over targets."""
        blocks = [self.blocks[row] for row in rows]
        seen = pad([ids[:-1] for ids in blocks], PAD_ID).to(device)  # (B, T)
        wanted = pad([ids[1:] for ids in blocks], PAD_ID).to(device)  # (B, T)
        return cross_entropy_sum(model(seen), wanted, smoothing=smoothing, ignore=PAD_ID)


def mean_loss(task: Task, model: nn.Module, *, batch_size: int = 64) -> float:
    """Return the mean loss of a target over all rows, without smoothing, in the mode the model is in."""
    device = next(model.parameters()).device
    order = sorted(range(len(task.lengths)), key=lambda row: task.lengths[row])
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            total += task.loss(model, order[start : start + batch_size], device).item()
    return total / task.weight(order)


def accuracy(task: ClassificationTask, model: nn.Module, *, batch_size: int = 64) -> float:
    """Return the share of texts whose likeliest class is the right one."""
    device = next(model.parameters()).device
    order = sorted(range(len(task.lengths)), key=lambda row: task.lengths[row])
    right = 0
    with torch.no_grad():
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            wanted = torch.tensor([task.labels[row] for row in rows], device=device)
            right += int((task.logits(model, rows, device).argmax(dim=-1) == wanted).sum())
    return right / len(order)


def _digest(*parts: Sequence) -> str:
    return hashlib.sha256(json.dumps(parts, default=list).encode()).hexdigest()
