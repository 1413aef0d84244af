"""Checks of what a model does with a sequence: the future, padding, order (see `checks`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tutorial_lib.check_messages import complain, require_language, say
from tutorial_lib.check_subject import CheckError, CheckReport, Subject, largest_change, tolerance_for
from tutorial_lib.validation import require_positive, require_tensor

MODES = ("train", "eval")


def check_causal(
    model: Any,
    inputs: Tensor,
    *,
    call: Callable[[Any, Tensor], Any] | None = None,
    modes: tuple[str, ...] = MODES,
    tolerance: float | None = None,
    language: str = "en",
) -> CheckReport:
    """Change each token in turn: no output before it may change.

    Args:
        model:  maps inputs to outputs (B, T, ...).
        inputs: ids (B, T) with at least two different ones, or vectors (B, T, D).
        call:   how to call the model, if not `model(inputs)`; for example
            `lambda model, inputs: model(source, inputs)`.
        modes:  "train", "eval" or both.
        tolerance: allowed change; by default the rounding of the output's dtype.
        language: of the messages, "en" or "ko".

    Returns:
        a report with the largest change that was seen.

    Raises:
        CheckError: if an earlier output changes, or no output ever does.
        ValueError: if inputs, modes or language do not fit.
    """
    require_language(language)
    subject = Subject(model, call, modes)
    _check_inputs(inputs)
    changes, allowed = {}, {}
    for mode in subject.modes:
        base = subject(mode, inputs)
        _check_length(base, inputs)
        allowed[mode] = tolerance_for(base, tolerance)
        changes[mode] = torch.stack(  # row: which token was changed; column: which output changed
            [
                largest_change(subject(mode, with_another_token(inputs, token)), base)
                for token in range(inputs.size(1))
            ]
        )
    early = {mode: change.tril(-1) for mode, change in changes.items()}
    for mode, change in early.items():
        if (change > allowed[mode]).any():
            token, position = _place_of_largest(change)
            raise CheckError(
                complain(
                    "leak",
                    _cause_of_leak(mode, changes, allowed),
                    language,
                    mode=say(mode, language),
                    token=token,
                    position=position,
                    largest=float(change[token, position]),
                )
            )
        if not (changes[mode] > allowed[mode]).any():
            raise CheckError(say("constant", language, mode=say(mode, language)))
    return _report("check_causal", subject, early, allowed, language)


def check_padding_invariance(
    model: Any,
    inputs: Tensor,
    *,
    call: Callable[[Any, Tensor, Tensor], Any] | None = None,
    padding_id: int = 0,
    extra: int = 3,
    side: str = "right",
    modes: tuple[str, ...] = MODES,
    tolerance: float | None = None,
    language: str = "en",
) -> CheckReport:
    """Append padding: what the model says about the real tokens must not change.

    Dropout drops other places when there is padding; so a mode in which the
    model is random is left out, and the report lists the modes that were tried.

    Args:
        model:  maps inputs to outputs (B, T, ...), or (B, ...) for the whole text.
        inputs: ids (B, T) without padding, or vectors (B, T, D), padded with large numbers.
        call:   how to call the model: `lambda model, inputs, real: ...`, where `real`,
            bool (B, T), is True at real tokens. By default `model(inputs)` for ids.
        padding_id: the id that stands for padding.
        extra:  how many padding tokens are added.
        side:   "right" or "left".
        modes, tolerance, language: as in `check_causal`.

    Returns:
        a report with the largest change that was seen.

    Raises:
        CheckError: if an output changes.
        ValueError: if inputs, modes, side or language do not fit.
    """
    require_language(language)
    require_positive(extra=extra)
    _check_inputs(inputs, varied=False)
    if side not in ("right", "left"):
        raise ValueError(f'side must be "right" or "left", got {side!r}')
    if inputs.is_floating_point() and call is None:
        raise ValueError("vectors need a call that passes their mask: call=lambda model, x, real: ...")
    subject = Subject(model, call or (lambda model, ids, real: model(ids)), modes)
    padded, real = _with_padding(inputs, padding_id, extra, side)
    everything = torch.ones_like(real[:, : inputs.size(1)])
    args, padded_args = (inputs, everything), (padded, real)
    subject.leave_out_random_modes(*args)
    changes, allowed = {}, {}
    for mode in subject.modes:
        base, output = subject(mode, *args), subject(mode, *padded_args)
        allowed[mode] = tolerance_for(base, tolerance)
        pooled = output.shape == base.shape
        if not pooled:
            _check_length(output, padded)
            first = extra if side == "left" else 0
            output = output[:, first : first + inputs.size(1)]
        changes[mode] = largest_change(output, base, dim=0 if pooled else 1)
        if (changes[mode] > allowed[mode]).any():
            place = "place_pooled" if pooled else "place_position"
            cause = "padding_pooled" if pooled else "padding_left" if side == "left" else "padding_token"
            raise CheckError(
                complain(
                    "padding",
                    cause,
                    language,
                    mode=say(mode, language),
                    extra=extra,
                    place=say(place, language, position=int(changes[mode].argmax())),
                    largest=float(changes[mode].max()),
                )
            )
    return _report("check_padding_invariance", subject, changes, allowed, language)


def check_permutation_equivariance(
    model: Any,
    inputs: Tensor,
    *,
    call: Callable[[Any, Tensor], Any] | None = None,
    modes: tuple[str, ...] = MODES,
    tolerance: float | None = None,
    language: str = "en",
) -> CheckReport:
    """Reorder the tokens: the outputs must be the same ones, in the new order.

    Self-attention without positions and without a causal mask has this
    property. A mode in which the model is random (dropout) is left out.

    Args:
        model:  maps inputs to outputs (B, T, ...).
        inputs: ids (B, T) with at least two different ones, or vectors (B, T, D).
        call, modes, tolerance, language: as in `check_causal`.

    Returns:
        a report with the largest difference that was seen.

    Raises:
        CheckError: if an output differs.
        ValueError: if inputs, modes or language do not fit.
    """
    require_language(language)
    subject = Subject(model, call, modes)
    _check_inputs(inputs)
    subject.leave_out_random_modes(inputs)
    reverse = torch.arange(inputs.size(1) - 1, -1, -1, device=inputs.device)
    rotate = reverse.flip(0).roll(1)
    changes, allowed = {}, {}
    for mode in subject.modes:
        base = subject(mode, inputs)
        _check_length(base, inputs)
        allowed[mode] = tolerance_for(base, tolerance)
        changes[mode] = torch.zeros(inputs.size(1), dtype=torch.float64)
        for order in (reverse, rotate):
            change = largest_change(subject(mode, inputs[:, order]), base[:, order])
            changes[mode] = torch.maximum(changes[mode], change.cpu())
            if (change > allowed[mode]).any():
                worst = int(change.argmax())
                raise CheckError(
                    complain(
                        "permutation",
                        "permutation_cause",
                        language,
                        mode=say(mode, language),
                        position=int(order[worst]),
                        largest=float(change[worst]),
                    )
                )
    return _report("check_permutation_equivariance", subject, changes, allowed, language)


def with_another_token(inputs: Tensor, token: int) -> Tensor:
    """Return a copy in which one position holds another id of the input, or a very different vector."""
    changed = inputs.clone()
    if inputs.is_floating_point():
        changed[:, token] = -2 * changed[:, token] + 1
        return changed
    for row in range(len(inputs)):
        others = inputs[inputs != inputs[row, token]]
        changed[row, token] = others[0]
    return changed


def _with_padding(inputs: Tensor, padding_id: int, extra: int, side: str) -> tuple[Tensor, Tensor]:
    shape = (inputs.size(0), extra, *inputs.shape[2:])
    if inputs.is_floating_point():
        padding = inputs.new_full(shape, 10.0)
    else:
        padding = inputs.new_full(shape, padding_id)
    real = torch.ones(inputs.shape[:2], dtype=torch.bool, device=inputs.device)
    none = real.new_zeros(shape[:2])
    if side == "left":
        return torch.cat([padding, inputs], dim=1), torch.cat([none, real], dim=1)
    return torch.cat([inputs, padding], dim=1), torch.cat([real, none], dim=1)


def _cause_of_leak(mode: str, changes: dict[str, Tensor], allowed: dict[str, float]) -> str:
    leaking = {m for m, change in changes.items() if (change.tril(-1) > allowed[m]).any()}
    if len(leaking) < len(changes):
        return "leak_eval_only" if leaking == {"eval"} else "leak_train_only"
    seen = changes[mode] > allowed[mode]  # (changed token, changed output)
    if not seen.triu(1).any():
        return "leak_inverted"
    if not seen.tril(-2).any():
        return "leak_next"
    return "leak_all"


def _place_of_largest(change: Tensor) -> tuple[int, int]:
    return divmod(int(change.argmax()), change.size(1))


def _check_inputs(inputs: Tensor, *, varied: bool = True) -> None:
    require_tensor("inputs", inputs)
    rank = 3 if inputs.is_floating_point() else 2
    if inputs.dim() != rank or inputs.numel() == 0:
        raise ValueError(
            f"inputs must be ids (B, T) or vectors (B, T, D), not empty, "
            f"got {inputs.dtype} of {tuple(inputs.shape)}"
        )
    if varied and inputs.size(1) < 2:
        raise ValueError(f"inputs need at least two positions, got {inputs.size(1)}")
    if varied and rank == 2 and len(inputs.unique()) < 2:
        raise ValueError(f"inputs need at least two different ids, got only {int(inputs[0, 0])}")


def _check_length(output: Tensor, inputs: Tensor) -> None:
    if output.dim() < 2 or output.shape[:2] != inputs.shape[:2]:
        raise ValueError(
            f"the model must give one output for each of the {tuple(inputs.shape[:2])} tokens (B, T), "
            f"got {tuple(output.shape)}"
        )


def _report(
    name: str, subject: Subject, changes: dict[str, Tensor], allowed: dict[str, float], language: str
) -> CheckReport:
    largest = max(float(change.max()) for change in changes.values())
    return CheckReport(name, subject.modes, largest, max(allowed.values()), language)
