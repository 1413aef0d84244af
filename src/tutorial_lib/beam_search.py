"""Beam search: several beginnings of the text at once, and the best of those that ended (built in chapter 10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import torch
import torch.nn.functional as F
from torch import Tensor

from tutorial_lib.stepping import Stepper, SteppingModel, evaluation_mode
from tutorial_lib.validation import require_positive

NOTHING = float("-inf")  # the log-probability of a beginning or hypothesis that does not exist


def length_penalty(length: int, alpha: float, offset: float = 5.0) -> float:
    """Return what a hypothesis' log-probability is divided by: each token makes it smaller, so that short ones win.

    lp(Y) = ((5 + |Y|) / (5 + 1))^α  (Wu et al. 2016, §7, eq. 14)

    Args:
        length: |Y|, the tokens of the hypothesis with its eos_id, at least 1.
        alpha:  α; 0 leaves the log-probability as it is, a larger one favours longer texts.
        offset: the paper's 5; 0 gives |Y|^α, the `length_penalty` of Hugging Face.

    Raises:
        ValueError: if length or offset is too small, or the result is 0 or no finite number.
    """
    require_positive(length=length)
    if not all(isinstance(n, Real) and math.isfinite(n) for n in (alpha, offset)) or offset < 0:
        raise ValueError(f"alpha must be finite, offset finite and at least 0, got {alpha} and {offset}")
    try:
        penalty = ((offset + length) / (offset + 1.0)) ** alpha
    except OverflowError:
        penalty = math.inf
    if not 0.0 < penalty < math.inf:
        raise ValueError(
            f"alpha must leave a finite penalty above 0 for {length} tokens, got {alpha}, which gives {penalty}"
        )
    return penalty


@dataclass(frozen=True)
class Hypotheses:
    """What beam search found, best first; where a row has fewer, the rest has length 0 and score -inf.

    Attributes:
        ids:     (B, n, up to N), the new ids alone, each with the eos_id that ended it,
            then padding as in `generation.greedy`.
        scores:  (B, n), the log-probability divided by `length_penalty`.
        lengths: (B, n), the number of tokens, eos_id included.
    """

    ids: Tensor
    scores: Tensor
    lengths: Tensor


def beam_search(
    model: SteppingModel,
    prompt: Tensor,
    source: Tensor | None = None,
    *,
    beams: int,
    max_new_tokens: int,
    eos_id: int | Sequence[int] | None = None,
    real: Tensor | None = None,
    best: int = 1,
    alpha: float = 0.6,
    offset: float = 5.0,
) -> Hypotheses:
    """Keep the likeliest beginnings at each step instead of a single one, and return the best that ended.

    Of all continuations of the beginnings the likeliest `beams` count. Those
    that end among them are finished hypotheses; the `beams` likeliest that do
    not end go on. What max_new_tokens cuts off counts as finished.

    A row stops when none of its beginnings can reach the n-th best finished
    hypothesis any more, even if everything that follows had probability 1. So it
    returns what a search that never stops early returns. One beam is greedy
    decoding, whatever α: it stops at its first ending.

    Args:
        model, prompt, source, real: as in `stepping.Stepper`.
        beams: k, how many beginnings go on. More than V are possible; they fill up in the first steps.
        max_new_tokens: N, the most tokens of a hypothesis.
        eos_id: the id, or ids, that end a hypothesis; None if nothing does.
        best:  n, how many hypotheses to return, at most `beams`.
        alpha, offset: see `length_penalty`; Vaswani et al. 2017 (§6.1) have 4 beams and α = 0.6.

    Returns:
        the best hypotheses of each row.

    Raises:
        ValueError: if an argument does not fit the model or the others; the message names both sides.
    """
    require_positive(beams=beams, best=best)
    if best > beams:
        raise ValueError(f"best must be at most the number of beams, got {best} and {beams}")
    require_positive(max_new_tokens=max_new_tokens)
    last = length_penalty(max_new_tokens, alpha, offset)
    with evaluation_mode(model):
        stepper = Stepper(model, prompt, source, real, max_new_tokens, eos_id)
        search = _Search(stepper, beams, best)
        for length in range(1, max_new_tokens):
            ids = search.extend(length_penalty(length, alpha, offset))
            if search.is_over(max(length_penalty(length + 1, alpha, offset), last)):
                break
            stepper.read(ids)
        else:
            search.extend(last, cut_off=True)
    return search.result()


class _Search:
    """A beam search under way: the beginnings (B, k) that go on, and the best hypotheses (B, n) so far.

    Args:
        stepper: of the prompts; gets k rows for each of its rows.
        beams: k
        best:  n
    """

    def __init__(self, stepper: Stepper, beams: int, best: int):
        scores = stepper.scores
        rows = torch.arange(len(scores), device=scores.device)
        self.stepper, self.length = stepper, 0
        stepper.select(rows.repeat_interleave(beams))  # (B, V) -> (B * k, V)
        self.first_beams = rows[:, None] * beams  # (B, 1)
        self.ids = stepper.eos_ids.new_empty(len(rows), beams, 0)
        self.log_probs = scores.new_full((len(rows), beams), NOTHING)
        self.log_probs[:, 0] = 0.0  # at first there is one beginning, the empty one
        self.best_ids = self.ids.new_empty(len(rows), best, 0)
        self.best_scores = scores.new_full((len(rows), best), NOTHING)
        self.best_lengths = rows.new_zeros(len(rows), best)
        self.done = torch.zeros_like(rows, dtype=torch.bool)

    def extend(self, penalty: float, *, cut_off: bool = False) -> Tensor:
        """Find the best continuations by one token; return the ids (B * k,) that are to be read next.

        Args:
            penalty: `length_penalty` of what ends now.
            cut_off: whether everything ends now.
        """
        self.length += 1
        beams, vocabulary = self.log_probs.size(1), self.stepper.scores.size(1)
        new = torch.log_softmax(self.stepper.scores, dim=-1).view(-1, beams, vocabulary)
        totals = (self.log_probs[:, :, None] + new).flatten(1)  # (B, k, V) -> (B, k * V)
        # A beginning ends in at most E ways, so that k of these candidates go on.
        candidates = min(beams * (1 + len(self.stepper.eos_ids)), totals.size(1))
        if beams == 1:  # of equals topk gives any, argmax the first: only so is one beam greedy decoding
            index = self.stepper.scores.argmax(dim=1, keepdim=True)  # (B, C), C = 1
            log_probs = totals.gather(1, index)
        else:
            log_probs, index = totals.topk(candidates)  # (B, C), the likeliest first
        parents, tokens = index // vocabulary, index % vocabulary
        ids = torch.cat([_pick(self.ids, parents), tokens[:, :, None]], dim=2)  # (B, C, length)
        ends = self.stepper.ends(tokens) | cut_off
        self._finish(ids[:, :beams], (log_probs / penalty).masked_fill(~ends, NOTHING)[:, :beams])
        self.log_probs, going_on = log_probs.masked_fill(ends, NOTHING).topk(beams)
        self.ids = _pick(ids, going_on)
        rows = (self.first_beams + parents.gather(1, going_on)).flatten()  # (B, k) -> (B * k,)
        if not torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            self.stepper.select(rows)
        return self.ids[:, :, -1].flatten()

    def _finish(self, ids: Tensor, scores: Tensor) -> None:
        """Let these hypotheses (B, k, length) join the best; -inf is the score of those that did not end."""
        scores = torch.cat([self.best_scores, scores.masked_fill(self.done[:, None], NOTHING)], dim=1)
        self.best_scores, order = scores.topk(self.best_scores.size(1))
        longer = F.pad(self.best_ids, (0, 1), value=self.stepper.filler)
        self.best_ids = _pick(torch.cat([longer, ids], dim=1), order)
        lengths = torch.full(ids.shape[:2], self.length, device=ids.device)
        self.best_lengths = torch.cat([self.best_lengths, lengths], dim=1).gather(1, order)

    def is_over(self, largest_penalty: float) -> bool:
        """Tell whether nothing that goes on can still get among the best of any row.

        Args:
            largest_penalty: of all lengths that are still possible.
        """
        # A log-probability never rises, and division by the largest penalty brings it nearest to 0.
        reachable = self.log_probs[:, 0] / largest_penalty
        worst = self.best_scores[:, -1]
        self.done = self.done | (worst >= reachable)
        return bool(self.done.all())

    def result(self) -> Hypotheses:
        """Return the best hypotheses, without columns that are padding in all of them."""
        missing = self.best_scores == NOTHING
        lengths = self.best_lengths.masked_fill(missing, 0)
        ids = self.best_ids.masked_fill(missing[:, :, None], self.stepper.filler)
        return Hypotheses(ids[:, :, : int(lengths.max())], self.best_scores, lengths)


def _pick(ids: Tensor, which: Tensor) -> Tensor:
    """Return the sequences (B, C, length) of each row whose numbers are `which` (B, C)."""
    return ids.gather(1, which[:, :, None].expand(-1, -1, ids.size(2)))
