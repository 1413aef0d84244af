"""Positions inside attention: Shaw's vectors, T5's bias, ALiBi and rotary positions (chapter 07).

Each scheme is a `PositionScheme` that overrides what it needs of three hooks;
`MultiHeadAttention(position=...)` calls them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from tutorial_lib.validation import require_choice, require_positive, require_tensor


class PositionScheme(nn.Module):
    """What a scheme may do inside self-attention; by default nothing.

    The hooks are called in the order in which they stand here. Positions are
    integers (B, T) and (B, S), the same numbers whether the keys are computed
    now or come from a cache; B is 1 where all rows have the same positions.
    """

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return what takes the place of queries (B, H, T, Dh) or keys (B, H_kv, T, Dh).

        It is called once for the queries and once for the new keys; a cache keeps rotated keys.
        """
        return x

    def score_bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Return what is added to the scores, broadcastable to (B, H, T, S), or None for nothing.

        The scores are already divided by sqrt(Dh), the query (B, H, T, Dh) is not.
        """
        return None

    def value_bias(self, weights: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """Return what is added to the output of each head, (B, H, T, Dh), or None for nothing.

        It is asked only of a scheme that adds to the scores; the weights (B, H, T, S) are those after dropout.
        """
        return None


def relative_distance(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """How far each key stands after (+) or before (-) each query: the future is positive.

    Args:
        query_positions: integers (..., T)
        key_positions:   integers (..., S)

    Returns:
        key minus query position, (..., T, S)
    """
    return key_positions[..., None, :] - query_positions[..., :, None]


def alibi_slopes(heads: int) -> Tensor:
    """One slope per head, a geometric sequence that starts at 2^(-8/H) (Press et al. 2022, §3).

    For a number of heads that is no power of two the authors' code takes the
    next lower power's slopes and fills up with every other slope of the next
    higher one; so does this function.

    Returns:
        slopes (H,), float32, all positive.
    """
    require_positive(heads=heads)
    power = 2 ** int(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (h + 1) / power) for h in range(power)]
    between = [2.0 ** (-8.0 * (h + 1) / (2 * power)) for h in range(0, 2 * power, 2)]
    return torch.tensor(slopes + between[: heads - power])


class ALiBi(PositionScheme):
    """Subtract slope x distance from the scores; nothing is learned (Press et al. 2022, §3).

    The paper is causal; here both sides of a query count their distance, so
    that an encoder can use it too.

    Args:
        heads: H
    """

    def __init__(self, heads: int):
        super().__init__()
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def score_bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = relative_distance(query_positions, key_positions).abs()[:, None]  # (B, 1, T, S)
        return (-self.slopes[:, None, None] * distance).to(query.dtype)  # (B, H, T, S)


def t5_bucket(
    distance: Tensor, *, buckets: int = 32, max_distance: int = 128, causal: bool = False
) -> Tensor:
    """Sort distances into buckets: near ones get their own, far ones share (Raffel et al. 2020, §2.1).

    Without `causal` each side of the query has half of all buckets. Half of a
    side's buckets hold one distance each; the width of the others grows
    logarithmically up to `max_distance`, and everything beyond falls into the last.

    Args:
        distance: key minus query position, integers of any shape.
        buckets:  how many there are; even, unless `causal`.
        max_distance: from here on all distances of a side share its last bucket.
        causal:   keys after the query all count as distance 0.

    Returns:
        int64, the shape of `distance`, from 0 to buckets - 1.

    Raises:
        ValueError: if `buckets` leaves no logarithmic part, or max_distance is too small for it.
    """
    require_tensor("distance", distance)
    per_side = buckets if causal else buckets // 2
    exact = per_side // 2
    if exact < 1 or max_distance <= exact or (not causal and buckets % 2):
        raise ValueError(
            f"buckets must be {'at least 2' if causal else 'even, at least 4'}, "
            f"with max_distance above {max(exact, 1)}, got buckets={buckets} and max_distance={max_distance}"
        )
    steps = (-distance).clamp(min=0) if causal else distance.abs()  # how far, whichever the side
    # From 0 at `exact` to 1 at `max_distance`. Near distances do not use it; the clamp spares them log(0).
    ratio = torch.log(steps.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    far = (exact + (ratio * (per_side - exact)).long()).clamp(max=per_side - 1)
    bucket = torch.where(steps < exact, steps, far)
    return bucket if causal else bucket + per_side * (distance > 0)


class T5Bias(PositionScheme):
    """One learned number per head and bucket of distance, added to the scores (Raffel et al. 2020, §2.1).

    T5 itself leaves the scores unscaled and shares one table among all
    layers; here each layer has its own.

    Args:
        heads: H
        buckets, max_distance, causal: see `t5_bucket`.
    """

    def __init__(self, heads: int, *, buckets: int = 32, max_distance: int = 128, causal: bool = False):
        super().__init__()
        require_positive(heads=heads)
        # Only for its errors: they should come now rather than at the first call.
        t5_bucket(torch.zeros(1, dtype=torch.long), buckets=buckets, max_distance=max_distance, causal=causal)
        self.buckets, self.max_distance, self.causal = buckets, max_distance, causal
        self.table = nn.Parameter(torch.zeros(buckets, heads))

    def score_bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = relative_distance(query_positions, key_positions)  # (B, T, S)
        bucket = t5_bucket(distance, buckets=self.buckets, max_distance=self.max_distance, causal=self.causal)
        return self.table[bucket].permute(0, 3, 1, 2)  # (B, T, S, H) -> (B, H, T, S)


class ShawPositions(PositionScheme):
    """A learned vector for each distance up to a limit, for keys and for values (Shaw et al. 2018, §3.2).

    e_ij = q_i · (k_j + a_ij) / sqrt(Dh),  z_i = Σ_j α_ij (v_j + b_ij); a and b
    depend on the clipped distance j - i and are shared by the heads. Of each
    there are 2K + 1, one for each distance from -K to K.

    Args:
        head_width:   Dh
        max_distance: K; distances beyond it share the vector at the limit.
        values:       False leaves out b; the paper (§4.3) found it unnecessary.
    """

    def __init__(self, head_width: int, max_distance: int = 16, *, values: bool = True):
        super().__init__()
        require_positive(head_width=head_width, max_distance=max_distance)
        self.max_distance = max_distance
        shape = (2 * max_distance + 1, head_width)
        self.key_vectors = nn.Parameter(torch.randn(shape) * head_width**-0.5)
        self.value_vectors = nn.Parameter(torch.randn(shape) * head_width**-0.5) if values else None

    def _row_of_each_pair(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        limit = self.max_distance
        clipped = relative_distance(query_positions, key_positions).clamp(-limit, limit)
        return (clipped + limit)[:, None]  # (B, 1, T, S), from 0 to 2K

    def score_bias(self, query: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        if query.size(-1) != self.key_vectors.size(-1):
            raise ValueError(
                f"ShawPositions was made for head_width {self.key_vectors.size(-1)}, got {query.size(-1)}"
            )
        # A vector for each pair would be (B, T, S, Dh) numbers. Score the query against each distance
        # once, then look up: (B, H, T, 2K+1) -> (B, H, T, S).
        by_distance = query @ self.key_vectors.T / query.size(-1) ** 0.5
        rows = self._row_of_each_pair(query_positions, key_positions)
        return by_distance.gather(-1, rows.expand(*query.shape[:3], -1))

    def value_bias(self, weights: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        if self.value_vectors is None:
            return None
        rows = self._row_of_each_pair(query_positions, key_positions).expand_as(weights)
        # Add up the weight that falls on each distance: (B, H, T, S) -> (B, H, T, 2K+1).
        by_distance = weights.new_zeros(*weights.shape[:3], self.value_vectors.size(0))
        return by_distance.scatter_add(-1, rows, weights) @ self.value_vectors


def apply_rotary(x: Tensor, positions: Tensor, *, base: float = 10000.0, layout: str = "adjacent") -> Tensor:
    """Turn each pair of numbers by an angle that grows with the position (Su et al. 2021, §3.2-3.4).

    Pair i of position m turns by m · base^(-2i/Dh). Since both query and key
    turn, their dot product depends on the difference of positions alone.

    Args:
        x:         (B, H, T, Dh), Dh even.
        positions: integers (1, T) or (B, T).
        base:      10000 in the paper; larger in models for long texts.
        layout:    "adjacent" pairs numbers 2i and 2i+1 as in the paper;
            "halves" pairs i with i + Dh/2 (the Llama weights of Hugging Face).

    Returns:
        rotated (B, H, T, Dh)

    Raises:
        ValueError: if Dh is odd, the positions do not fit, or the layout is unknown.
    """
    require_tensor("x", x)
    require_choice("layout", layout, ("adjacent", "halves"))
    return _turn(x, *_cosine_and_sine(x, positions, base), layout)


def _cosine_and_sine(x: Tensor, positions: Tensor, base: float) -> tuple[Tensor, Tensor]:
    if x.dim() != 4 or x.size(-1) % 2:
        raise ValueError(f"rotary positions need (B, H, T, Dh) with an even Dh, got {tuple(x.shape)}")
    if positions.dim() != 2 or positions.size(-1) != x.size(-2) or positions.size(0) not in (1, x.size(0)):
        raise ValueError(f"positions must be (1 or {len(x)}, {x.size(-2)}), got {tuple(positions.shape)}")
    half = x.size(-1) // 2
    # Float64, because a float32 angle near 100000 is up to 0.004 off.
    exponents = torch.arange(half, dtype=torch.float64, device=x.device) / half
    angles = positions.to(torch.float64)[:, None, :, None] * base**-exponents  # (B, 1, T, Dh/2)
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def _turn(x: Tensor, cosine: Tensor, sine: Tensor, layout: str) -> Tensor:
    first, second = x.chunk(2, dim=-1) if layout == "halves" else (x[..., 0::2], x[..., 1::2])
    turned = first * cosine - second * sine, first * sine + second * cosine
    if layout == "halves":
        return torch.cat(turned, dim=-1)
    return torch.stack(turned, dim=-1).flatten(-2)  # (B, H, T, Dh/2, 2) -> (B, H, T, Dh)


class Rotary(PositionScheme):
    """`apply_rotary` to queries and keys; nothing is learned, and nothing is added to the scores.

    Args:
        head_width: Dh, even.
        base, layout: see `apply_rotary`.
    """

    def __init__(self, head_width: int, *, base: float = 10000.0, layout: str = "adjacent"):
        super().__init__()
        require_positive(head_width=head_width)
        require_choice("layout", layout, ("adjacent", "halves"))
        if head_width % 2:
            raise ValueError(f"rotary positions need an even head_width, got {head_width}")
        self.base, self.layout = base, layout
        self._last = (None, None, None)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        # Every layer asks twice for the same positions: compute their angles once, unless they are changed.
        version = object() if positions.is_inference() else positions._version  # nobody counts those changes
        now, (last, then, angles) = (version, len(x), x.shape[2:], x.dtype), self._last
        if last is not positions or then != now:
            angles = _cosine_and_sine(x, positions, self.base)
            self._last = (positions, now, angles)
        return _turn(x, *angles, self.layout)


SCHEMES = ("rotary", "rotary_halves", "alibi", "t5", "shaw")


def position_scheme_factory(
    kind: str, *, heads: int, head_width: int, causal: bool, rotary_base: float = 10000.0
) -> Callable[[], PositionScheme] | None:
    """Return a function that makes the scheme of each layer, or None for a kind that is not in `SCHEMES`.

    Args:
        kind: one of `SCHEMES`, or a name that is the embedding's business ("learned", "none", ...).
        heads, head_width: H and Dh of the layers.
        causal: for "t5", whose buckets then all lie on one side.
        rotary_base: for the two rotary kinds.
    """
    if kind not in SCHEMES:
        return None
    if kind.startswith("rotary"):  # nothing is learned: all layers share one, and the angles that it knows
        layout = "halves" if kind == "rotary_halves" else "adjacent"
        rotary = Rotary(head_width, base=rotary_base, layout=layout)
        return lambda: rotary
    return {
        "alibi": lambda: ALiBi(heads),
        "t5": lambda: T5Bias(heads, causal=causal),
        "shaw": lambda: ShawPositions(head_width),
    }[kind]
