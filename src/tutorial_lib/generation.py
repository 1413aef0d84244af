"""Generate token by token, greedily or by sampling (built in chapters 10 and 12).

    greedy(model, prompt, max_new_tokens=20, eos_id=3)              # DecoderOnly
    greedy(model, start_ids, source, max_new_tokens=20, eos_id=3)   # Transformer, RecurrentTranslator

Beam search is in `beam_search`. All read one token per step through
`stepping.Stepper`, in evaluation mode and without gradients, and leave the
model in the mode that it had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tutorial_lib.sampling import check_sampling, next_token_probabilities
from tutorial_lib.stepping import Stepper, SteppingModel, evaluation_mode
from tutorial_lib.validation import require_tensor


def greedy(
    model: SteppingModel,
    prompt: Tensor,
    source: Tensor | None = None,
    *,
    max_new_tokens: int,
    eos_id: int | Sequence[int] | None = None,
    real: Tensor | None = None,
) -> Tensor:
    """Append the likeliest token, again and again; of equally likely ones the lowest id.

    Args:
        model, prompt, source, real: as in `Stepper`.
        max_new_tokens: N, the most tokens that each row gets.
        eos_id: the id, or ids, that end a row; None if nothing does.

    Returns:
        the new ids alone, (B, up to N): each row with the eos_id that ended it, then
        padding (eos_id again where the model has no padding_id).

    Raises:
        ValueError: if an argument does not fit the model or the others; the message names both sides.
    """
    with evaluation_mode(model):
        stepper = Stepper(model, prompt, source, real, max_new_tokens, eos_id)
        return _append(stepper, lambda scores: scores.argmax(dim=-1), max_new_tokens)


def sample(
    model: SteppingModel,
    prompt: Tensor,
    source: Tensor | None = None,
    *,
    max_new_tokens: int,
    eos_id: int | Sequence[int] | None = None,
    real: Tensor | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Append a token drawn from the model's distribution, again and again.

    Args:
        model, prompt, source, real: as in `Stepper`.
        max_new_tokens, eos_id: as in `greedy`.
        temperature, top_k, top_p: see `next_token_probabilities`.
        generator: where the chance comes from, on the model's device; torch's own if
            left out. All rows draw from it in turns.

    Returns:
        the new ids alone, as in `greedy`.

    Raises:
        ValueError: if an argument does not fit the model or the others; the message names both sides.
    """
    check_sampling(temperature, top_k, top_p)
    if generator is not None:
        require_tensor("prompt", prompt)
        got = generator.device.type if isinstance(generator, torch.Generator) else type(generator).__name__
        if got != prompt.device.type:
            raise ValueError(f"generator must be a torch.Generator on the {prompt.device.type}, got {got}")

    def draw(scores: Tensor) -> Tensor:
        probabilities = next_token_probabilities(scores, temperature=temperature, top_k=top_k, top_p=top_p)
        return torch.multinomial(probabilities, 1, generator=generator)[:, 0]  # (B, V) -> (B,)

    with evaluation_mode(model):
        stepper = Stepper(model, prompt, source, real, max_new_tokens, eos_id)
        return _append(stepper, draw, max_new_tokens)


def _append(stepper: Stepper, choose: Callable[[Tensor], Tensor], max_new_tokens: int) -> Tensor:
    """Let `choose` turn scores (B, V) into ids (B,) until every row has ended."""
    ids = choose(stepper.scores)
    columns, done = [ids], stepper.ends(ids)
    while len(columns) < max_new_tokens and not done.all():
        stepper.read(ids)
        ids = choose(stepper.scores)
        if done.any():
            ids = ids.masked_fill(done, stepper.filler)
        columns.append(ids)
        done = done | stepper.ends(ids)
    return torch.stack(columns, dim=1)
