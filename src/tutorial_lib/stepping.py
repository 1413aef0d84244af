"""What greedy decoding, sampling and beam search share: a model that reads one token per step (chapter 10)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from tutorial_lib.masks import real_tokens
from tutorial_lib.validation import require_like_parameters, require_positive, require_tensor


class SteppingModel(Protocol):
    """What a module needs to generate: `DecoderOnly`, `Transformer` and `RecurrentTranslator` have it.

    Attributes:
        config: its `padding_id` stands for no token, so that it is never generated; None if there is none.
        max_length: the most ids that the model can read after `start`, or None for no limit.
    """

    config: Any
    max_length: int | None

    def start(self, *source: Tensor) -> Any:
        """Return the state before the first id; a translator reads the source (B, S) here.

        `state.select(rows)` keeps these rows of the batch, in this order.
        """

    def step(self, ids: Tensor, state: Any, *, last_only: bool = False) -> Tensor:
        """Read ids (B, T), move the state on, return the logits (B, T, V), or (B, 1, V) with `last_only`.

        A model without a source takes `real` too, bool (B, T), for a prompt whose padding its ids do not tell.
        """


class Stepper:
    """A model that has read its prompt, and reads one more id per row with each call of `read`.

    A prompt may be padded on the left, on the right, or both: the padding is
    moved to the left, where every row's last token is the last column, and what
    is padding in all rows is left out.

    Args:
        model:  see `SteppingModel`.
        prompt: ids (B, T), at least one real token per row. For a translator: what
            every translation starts with, usually the start-of-sentence id.
        source: ids (B, S) for a translator; None for the others.
        real:   bool (B, T), True = a real token of the prompt; if left out, what
            differs from the model's padding_id. Not for translators.
        max_new_tokens: how often `read` will be called at most, plus one.
        eos_id: the id, or ids, that end a text; None if nothing does.

    Attributes:
        scores: (B, V), of the id that comes next: the model's logits, in float32 if
            they are in half precision, with -inf for its padding_id (unless that
            is an eos_id too).
        filler: what follows the end of a text: the padding_id, or else the first eos_id
            (0 if there is neither: then no text ends early).
        eos_ids: (E,), E = 0 if there is none.

    Raises:
        ValueError: if an argument does not fit the model or the others; the message names both sides.
    """

    def __init__(
        self,
        model: SteppingModel,
        prompt: Tensor,
        source: Tensor | None,
        real: Tensor | None,
        max_new_tokens: int,
        eos_id: int | Sequence[int] | None,
    ):
        require_positive(max_new_tokens=max_new_tokens)
        prompt, real = _prepare_prompt(model, prompt, source, real)
        reads, limit = prompt.size(1) + max_new_tokens - 1, model.max_length  # nobody reads the last one
        if limit is not None and reads > limit:
            raise ValueError(
                f"this model reads at most {limit} tokens (max_length), got a prompt of {prompt.size(1)} "
                f"and max_new_tokens={max_new_tokens}, the last of which is not read"
            )
        eos_ids = _as_list(eos_id)
        padding_id = model.config.padding_id
        self.model = model
        self.eos_ids = torch.tensor(eos_ids, dtype=torch.long, device=prompt.device)
        self.filler = next((one for one in (padding_id, *eos_ids) if one is not None), 0)
        self._never = torch.tensor(
            [] if padding_id is None or padding_id in eos_ids else [padding_id],
            dtype=torch.long,
            device=prompt.device,
        )
        self._state = model.start() if source is None else model.start(source)
        mask = {} if real is None else {"real": real}
        self.scores = self._scores(model.step(prompt, self._state, last_only=True, **mask))
        vocabulary = self.scores.size(1)
        if any(not 0 <= one < vocabulary for one in eos_ids):
            raise ValueError(f"eos_id must lie between 0 and {vocabulary - 1}, got {eos_id}")

    def read(self, ids: Tensor) -> None:
        """Read the next id of each row, (B,); the scores are then those of the id after it."""
        self.scores = self._scores(self.model.step(ids[:, None], self._state, last_only=True))

    def ends(self, ids: Tensor) -> Tensor:
        """Return which ids of any shape end a text."""
        return torch.isin(ids, self.eos_ids)

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may occur several times."""
        self._state.select(rows)
        self.scores = self.scores[rows]

    def _scores(self, logits: Tensor) -> Tensor:
        scores = logits[:, -1]  # (B, 1, V) -> (B, V)
        if scores.dtype in (torch.float16, torch.bfloat16):
            scores = scores.float()
        if len(self._never):
            scores = scores.index_fill(1, self._never, float("-inf"))
        largest = scores.amax(dim=1)  # NaN if any score is
        if not largest.isfinite().all():
            raise ValueError(f"the model's scores must be finite, got the largest scores {largest.tolist()}")
        return scores


@contextmanager
def evaluation_mode(model: SteppingModel) -> Iterator[None]:
    """Switch off dropout and gradients for a while; afterwards every module has the mode that it had.

    A model generates as it will be used, also in the middle of its training.

    Raises:
        ValueError: if it is no model that steps.
    """
    if not isinstance(model, nn.Module) or not hasattr(model, "step"):
        raise ValueError(f"model must be a module with start and step, got {type(model).__name__}")
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.no_grad():  # not inference_mode: the ids may become training data
            yield
    finally:
        for module in training:
            module.training = True


def _prepare_prompt(
    model: SteppingModel, prompt: Tensor, source: Tensor | None, real: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Check the prompt and move its padding to the left; return it, and its mask if the ids do not tell."""
    require_tensor("prompt", prompt)
    if prompt.dim() != 2 or 0 in prompt.shape or prompt.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            "prompt must be int64 or int32 ids (B, T) with at least one row and one token, "
            f"got {prompt.dtype} of {tuple(prompt.shape)}"
        )
    require_like_parameters("prompt", prompt, model)
    translates = bool(inspect.signature(model.start).parameters)
    if translates != (source is not None):
        wanted, got = ("a", "none") if translates else ("no", "one")
        raise ValueError(f"{type(model).__name__} needs {wanted} source, got {got}")
    padding_id = model.config.padding_id
    if translates:
        require_tensor("source", source)
        if source.dim() != 2:
            raise ValueError(f"source must be ids (B, S), got {tuple(source.shape)}")
        if source.size(0) != prompt.size(0):
            raise ValueError(
                f"prompt and source must have the same batch size, got {prompt.size(0)} and {source.size(0)}"
            )
        # Only the first may be the padding id: Marian's models start with it.
        if real is not None or (prompt[:, 1:] == padding_id).any():
            raise ValueError(
                "a translation starts without padding: its prompt must be ids alone, got padding"
            )
        return prompt, None
    real = real_tokens(prompt, padding_id) if real is None else require_tensor("real", real)
    if real.dtype != torch.bool or real.shape != prompt.shape or real.device != prompt.device:
        raise ValueError(
            f"real must be bool like the prompt, {tuple(prompt.shape)} on {prompt.device}, "
            f"got {real.dtype} of {tuple(real.shape)} on {real.device}"
        )
    lengths = real.sum(dim=1)
    if not lengths.all():
        empty = (lengths == 0).nonzero()[:, 0].tolist()
        raise ValueError(f"each prompt must have a real token, got nothing but padding in rows {empty}")
    order = real.int().argsort(dim=1, stable=True)[:, -int(lengths.max()) :]  # padding first, order kept
    prompt, real = prompt.gather(1, order), real.gather(1, order)
    # It goes along only where it says more than the ids do: a model need not know it.
    return prompt, None if torch.equal(real, real_tokens(prompt, padding_id)) else real


def _as_list(eos_id: int | Sequence[int] | None) -> list[int]:
    given = [] if eos_id is None else list(eos_id) if isinstance(eos_id, Sequence) else [eos_id]
    if any(isinstance(one, bool) or not isinstance(one, int) for one in given):
        raise ValueError(f"eos_id must be an integer, several, or None, got {eos_id!r}")
    return given
