"""Checks of the parts of a model: attention weights, a decoder's cache, gradients (see `checks`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tutorial_lib.check_messages import complain, require_language, say
from tutorial_lib.check_subject import CheckError, CheckReport, Subject, largest_change, tolerance_for
from tutorial_lib.validation import require_tensor


def check_rows_sum_to_one(
    weights: Tensor, mask: Tensor | None = None, *, tolerance: float | None = None, language: str = "en"
) -> CheckReport:
    """Each row of attention weights must be a distribution over the allowed keys, or zeros if there is none.

    Args:
        weights: (..., T, S)
        mask:    bool, broadcastable to (..., T, S); True = may attend.
        tolerance: allowed distance of a sum from 1; by default the rounding of the dtype.
        language: of the messages, "en" or "ko".

    Returns:
        a report with the largest distance that was seen.

    Raises:
        CheckError: if a row does not sum to 1 (or 0), or a weight is negative, not finite or forbidden.
        ValueError: if weights and mask do not fit.
    """
    require_language(language)
    require_tensor("weights", weights)
    if weights.dim() < 2 or not weights.is_floating_point():
        raise ValueError(
            f"weights must be floating point (..., T, S), got {weights.dtype} of {tuple(weights.shape)}"
        )
    allowed = torch.ones_like(weights, dtype=torch.bool)
    if mask is not None:
        require_tensor("mask", mask)
        if mask.dtype != torch.bool:
            raise ValueError(f"mask must be boolean (True = may attend), got {mask.dtype}")
        try:
            allowed = allowed & mask
        except RuntimeError:
            raise ValueError(
                f"mask must broadcast to the weights, got {tuple(mask.shape)} for {tuple(weights.shape)}"
            ) from None
        if allowed.shape != weights.shape:
            raise ValueError(
                f"mask must broadcast to the weights, got {tuple(mask.shape)} for {tuple(weights.shape)}"
            )
    weights = weights.detach()
    limit = tolerance_for(weights, tolerance)
    wide = weights.double()
    wanted = allowed.any(dim=-1).double()  # (..., T): 1, or 0 for a row that may see nothing
    sums = wide.sum(dim=-1)

    def fail(key: str, cause: str, bad: Tensor, values: Tensor) -> None:
        index = tuple(int(i) for i in bad.nonzero()[0])
        row = index[: weights.dim() - 1]
        place = say("place_row", language, index=row if len(row) > 1 else row[0])
        raise CheckError(complain(key, cause, language, place=place, value=float(values[index])))

    if not wide.isfinite().all():
        fail("not_a_number", "rows_softmax_of_minus_infinity", ~wide.isfinite(), wide)
    if (wide < 0).any():
        fail("negative", "rows_other", wide < 0, wide)
    wrong = (sums - wanted).abs() > limit
    if (wrong & (wanted == 0)).any():
        fail("rows_empty", "rows_finite_mask", wrong & (wanted == 0), sums)
    forbidden = (wide > limit) & ~allowed
    if wrong.any():
        columns = wide.sum(dim=-2)
        if ((columns - 1).abs() <= limit).all():
            cause = "rows_columns"
        elif mask is not None and not forbidden.any() and (sums < wanted + limit).all():
            cause = "rows_after"
        else:
            cause = "rows_other"
        fail("rows", cause, wrong, sums)
    if forbidden.any():
        fail("forbidden", "rows_finite_mask", forbidden, wide)
    largest = float((sums - wanted).abs().max()) if sums.numel() else 0.0
    return CheckReport("check_rows_sum_to_one", ("function",), largest, limit, language)


def check_cache(
    model: Any,
    ids: Tensor,
    *,
    full: Callable[[Any, Tensor], Any] | None = None,
    start: Callable[[Any], Any] | None = None,
    step: Callable[[Any, Tensor, Any], Any] | None = None,
    tolerance: float | None = None,
    language: str = "en",
) -> CheckReport:
    """Read a text in chunks with a cache: the outputs must be those of reading it at once.

    Only evaluation mode is tried: dropout would drop different places.

    Args:
        model: a decoder.
        ids:   (B, T), T at least 2.
        full:  reads everything at once; `model(ids)` by default.
        start: makes an empty cache; `model.start()` by default.
        step:  reads a chunk; `model.step(chunk, cache)` by default.
        tolerance, language: as in `check_causal`.

    Returns:
        a report with the largest difference that was seen.

    Raises:
        CheckError: if the outputs differ in any chunking.
        ValueError: if the ids do not fit or the language is unknown.
    """
    require_language(language)
    require_tensor("ids", ids)
    if ids.dim() != 2 or ids.size(1) < 2:
        raise ValueError(f"ids must have shape (B, T) with T of at least 2, got {tuple(ids.shape)}")
    start = start or (lambda model: model.start())
    step = step or (lambda model, chunk, cache: model.step(chunk, cache))
    subject = Subject(model, full, ("eval",))
    mode = subject.modes[0]
    base = subject(mode, ids)
    allowed = tolerance_for(base, tolerance)
    largest, failed = 0.0, []
    for chunks in _chunkings(ids.size(1)):

        def read(model, ids, chunks=chunks):
            cache = start(model)
            return torch.cat([_tensor(step(model, part, cache)) for part in ids.split(chunks, dim=1)], dim=1)

        change = largest_change(subject(mode, ids, call=read), base)
        largest = max(largest, float(change.max()))
        if (change > allowed).any():
            failed.append((chunks, change))
    if failed:
        single = all(size == 1 for size in failed[0][0])
        chunks, change = failed[0]
        raise CheckError(
            complain(
                "cache",
                "cache_single" if single else "cache_chunk",
                language,
                chunks=" + ".join(map(str, chunks)),
                position=int((change > allowed).nonzero()[0]),
                largest=float(change.max()),
            )
        )
    return CheckReport("check_cache", subject.modes, largest, allowed, language)


def check_gradients(
    model: Any,
    inputs: Tensor,
    *,
    call: Callable[[Any, Tensor], Any] | None = None,
    modes: tuple[str, ...] = ("train", "eval"),
    ignore: tuple[str, ...] = (),
    language: str = "en",
) -> CheckReport:
    """Every parameter must receive a gradient that is finite and not zero everywhere.

    Args:
        model:  a torch module or Keras layer with parameters.
        inputs: what it reads.
        call, modes, language: as in `check_causal`.
        ignore: names of parameters, or their beginnings, that need no gradient.

    Returns:
        a report with the largest gradient that was seen.

    Raises:
        CheckError: naming the parameters without a gradient, with a zero or an infinite one.
        ValueError: if the model has no parameters, or modes or language do not fit.
    """
    require_language(language)
    subject = Subject(model, call, modes)
    largest = 0.0
    for mode in subject.modes:
        output = subject.with_gradient(mode, inputs)
        named = {n: p for n, p in subject.parameters().items() if not n.startswith(ignore or ("\0",))}
        if not named:
            raise ValueError(
                f"model must have trainable parameters to check, got none in {type(model).__name__}"
            )
        weight = torch.linspace(0.5, 1.5, output.numel(), device=output.device, dtype=output.dtype)
        loss = (output.flatten() * weight * torch.sign(torch.sin(7 * weight))).sum()
        gradients = (None,) * len(named)
        if loss.requires_grad:
            gradients = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        found: dict[str, list[str]] = {"missing": [], "infinite": [], "zero": []}
        for name, gradient in zip(named, gradients, strict=True):
            if gradient is None:
                found["missing"].append(name)
            elif not gradient.isfinite().all():
                found["infinite"].append(name)
            elif not gradient.any():
                found["zero"].append(name)
            else:
                largest = max(largest, float(gradient.abs().max()))
        for kind, names in found.items():
            if names:
                raise CheckError(
                    complain(
                        f"gradient_{kind}",
                        f"gradient_{kind}_cause",
                        language,
                        names=", ".join(names),
                        mode=say(mode, language),
                    )
                )
    return CheckReport("check_gradients", subject.modes, largest, float("inf"), language)


def _chunkings(length: int) -> list[list[int]]:
    """One by one first (its failure has another cause), then one and the rest, halves and triples."""
    half = length // 2
    triples = [3] * (length // 3) + ([length % 3] if length % 3 else [])
    candidates = [[1] * length, [1, length - 1], [length - 1, 1], [half, length - half], triples]
    return [c for i, c in enumerate(candidates) if c not in candidates[:i]]


def _tensor(output: Any) -> Tensor:
    return output[0] if isinstance(output, (tuple, list)) else output
