import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make, seeded, set_off

from tutorial_lib import cache as cache_module
from tutorial_lib.attention import scaled_dot_product_attention
from tutorial_lib.cache import KeyValueCache
from tutorial_lib.interop import to_torch_attention
from tutorial_lib.masks import causal_mask, combine_masks, padding_mask, to_torch_attn_mask
from tutorial_lib.multihead import MultiHeadAttention, multi_head_attention
from tutorial_lib.relative_positions import SCHEMES, Rotary, position_scheme_factory

B, T, S, D, H = 2, 5, 7, 24, 4
Dh = D // H


def layer(**kwargs):
    return set_off(seeded(MultiHeadAttention, D, H, **kwargs).double())


def without_bias(**kwargs):
    return layer(bias=False, **kwargs)


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_the_stacked_projections_equal_one_projection_per_head(kv_heads):
    attention = without_bias(kv_heads=kv_heads)
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    mask = combine_masks(padding_mask(lengths=[7, 4]), causal_mask(T, S))
    output, weights = attention(x, memory, mask, need_weights=True)
    by_head, head_weights = multi_head_attention(x, memory, memory, *attention.head_projections(), mask)
    close(output, by_head)
    close(weights, head_weights)
    close(attention(x, memory, mask)[0], by_head)  # the fused path too


def test_each_head_sees_the_whole_vector():
    attention = without_bias()
    x = make(1, 1, D).requires_grad_()
    query = attention._split(attention.query_projection(x), H)
    (gradient,) = torch.autograd.grad(query[0, 0, 0].sum(), x)
    assert (gradient != 0).all()  # the first head's query depends on all D numbers, not on the first Dh


def test_the_scores_are_divided_by_the_root_of_the_head_width():
    attention = without_bias()
    x = make(B, T, D)
    w_query, w_key, *_ = attention.head_projections()
    scores = (x @ w_query[1]) @ (x @ w_key[1]).transpose(1, 2) / Dh**0.5
    close(attention(x, need_weights=True)[1][:, 1], torch.softmax(scores, -1))


def test_a_mask_may_differ_from_head_to_head():
    attention = without_bias()
    x = make(B, T, D)
    mask = make(B, H, T, T, seed=5) > -0.5
    close(attention(x, mask=mask)[0], multi_head_attention(x, x, x, *attention.head_projections(), mask)[0])
    mask[:, 2] = False
    weights = attention(x, mask=mask, need_weights=True)[1]
    assert (weights[:, 2] == 0).all() and (weights[:, 3].sum() > 0)


@pytest.mark.parametrize("need_weights", [True, False])
def test_it_equals_torch_with_the_same_weights(need_weights):
    ours = layer()
    reference = to_torch_attention(ours)
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    mask = combine_masks(padding_mask(lengths=[7, 4]), causal_mask(T, S))
    output, weights = ours(x, memory, mask, need_weights=need_weights)
    expected, expected_weights = reference(
        x, memory, memory, attn_mask=to_torch_attn_mask(mask, H), average_attn_weights=False
    )
    close(output, expected)
    if need_weights:
        close(weights, expected_weights)
    else:
        assert weights is None


@given(
    batch=st.integers(1, 3),
    queries=st.integers(1, 5),
    keys=st.integers(1, 6),
    heads=st.sampled_from([(1, 1), (2, 1), (4, 2), (6, 3)]),
    head_width=st.integers(1, 4),
    density=st.floats(-2, 2),
)
def test_both_paths_agree_on_any_shape_and_mask(batch, queries, keys, heads, head_width, density):
    attention = seeded(MultiHeadAttention, 5, heads[0], kv_heads=heads[1], head_width=head_width).double()
    x, memory = make(batch, queries, 5), make(batch, keys, 5, seed=1)
    mask = make(batch, heads[0], queries, keys, seed=2) < density
    explicit, weights = attention(x, memory, mask, need_weights=True)
    close(explicit, attention(x, memory, mask)[0])
    close(weights.sum(-1), mask.any(-1).double())
    assert (weights[~mask] == 0).all()


def test_a_row_that_may_attend_to_nothing_gives_the_bias_of_the_output_and_finite_gradients():
    attention = layer()
    x = make(B, T, D).requires_grad_()
    mask = causal_mask(T).clone()
    mask[2] = False
    for need_weights in (True, False):
        output, _ = attention(x, mask=mask, need_weights=need_weights)
        close(output[:, 2], attention.output_projection.bias.expand(B, D))
        (gradient,) = torch.autograd.grad(output.square().sum(), x)
        assert gradient.isfinite().all()


def test_the_memory_may_have_another_width_and_length():
    attention = seeded(MultiHeadAttention, D, H, memory_width=10).double()
    output, weights = attention(make(B, T, D), make(B, S, 10), need_weights=True)
    assert output.shape == (B, T, D) and weights.shape == (B, H, T, S)


def test_fewer_key_value_heads_have_fewer_parameters():
    def count(kv_heads):
        return sum(p.numel() for p in layer(kv_heads=kv_heads).parameters())

    assert count(4) == 4 * D * D + 4 * D
    assert count(1) == 2 * D * D + 2 * D * Dh + 2 * D + 2 * Dh


CHUNKS = [[1] * 6, [6], [1, 5], [5, 1], [2, 1, 3]]


@pytest.mark.parametrize("kind", [None, *SCHEMES])
@pytest.mark.parametrize("kv_heads", [2, 4])
def test_a_cache_gives_the_same_numbers_in_any_chunking(kind, kv_heads):
    position = kind and position_scheme_factory(kind, heads=H, head_width=Dh, causal=True)()
    attention = layer(kv_heads=kv_heads, position=position)
    x = make(B, 6, D)
    whole, _ = attention(x, mask=causal_mask(6))
    for chunks in CHUNKS:
        cache, outputs = KeyValueCache(), []
        for part in x.split(chunks, dim=1):
            mask = causal_mask(part.size(1), cache.length + part.size(1))
            outputs.append(attention(part, mask=mask, cache=cache)[0])
        close(torch.cat(outputs, 1), whole)
        assert cache.length == 6 and cache.keys.shape == (B, kv_heads, 6, Dh)


@pytest.mark.parametrize("kind", [None, *SCHEMES])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_without_gradients_the_cache_writes_into_its_buffers_and_gives_the_same(
    kind, kv_heads, masked, monkeypatch
):
    """It grows several times; in between rows change places and several tokens come in at once."""
    monkeypatch.setattr(cache_module, "ROOM", 3)
    position = kind and position_scheme_factory(kind, heads=H, head_width=Dh, causal=True)()
    attention, long = layer(kv_heads=kv_heads, position=position), 16
    x, rows = make(3, long, D), torch.tensor([2, 0, 2])
    real = torch.ones(3, long, dtype=torch.bool)
    real[0, :4], real[2, 1] = not masked, not masked
    mask = combine_masks(causal_mask(long), real[:, None, None, :])
    with torch.no_grad():
        whole = attention(x, mask=mask)[0]
        cache, outputs, start = KeyValueCache(), [], 0
        for size in [5, 1, 1, 1, 1, 2, 3, 1, 1]:
            if start == 8:
                cache.select(rows)
                x, whole, mask = x[rows], whole[rows], mask[rows]
                outputs = [torch.cat(outputs, 1)[rows]]
            end = start + size
            outputs.append(attention(x[:, start:end], mask=mask[:, :, start:end, :end], cache=cache)[0])
            start = end
    close(torch.cat(outputs, 1), whole)
    assert cache.length == long


def test_a_cache_may_go_from_no_gradients_to_gradients_and_back():
    attention, x = layer(), make(B, 8, D).requires_grad_()
    whole = attention(x, mask=causal_mask(8))[0]
    cache, outputs = KeyValueCache(), []
    for start in range(8):
        with torch.set_grad_enabled(2 <= start < 6):
            outputs.append(attention(x[:, start : start + 1], cache=cache)[0])
    close(torch.cat(outputs, 1), whole)
    outputs[5].sum().backward()  # what came later did not write over what it needs
    assert x.grad[:, 2:6].any()


def test_the_memory_is_projected_once_and_then_taken_from_the_cache():
    attention, cache = layer(), KeyValueCache()
    x, memory = make(B, T, D), make(B, S, D, seed=1)
    first, _ = attention(x, memory, cache=cache)
    with torch.no_grad():
        attention.key_projection.weight.zero_()
    close(attention(x, memory, cache=cache)[0], first, 0)
    assert cache.length == S


def test_positions_of_each_row_reach_the_scheme():
    attention = layer(position=Rotary(Dh))
    x = make(B, 3, D)
    positions = torch.tensor([[0, 1, 2], [0, 1, 5]])
    both = attention(x, positions=positions)[0]
    close(both[0], attention(x[:1])[0][0])
    close(both[1], attention(x[1:], positions=positions[1:])[0][0])
    assert (both[1] - attention(x[1:])[0][0]).abs().max() > 1e-4


def test_cached_positions_may_differ_from_row_to_row():
    attention = layer(position=Rotary(Dh))
    x, positions = make(B, 4, D), torch.tensor([[0, 1, 2, 3], [0, 0, 1, 2]])
    whole = attention(x, mask=causal_mask(4), positions=positions)[0]
    cache = KeyValueCache()
    attention(x[:, :3], mask=causal_mask(3), positions=positions[:, :3], cache=cache)
    close(attention(x[:, 3:], positions=positions[:, 3:], cache=cache)[0], whole[:, 3:])


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_cache_can_reorder_and_repeat_its_rows(kind):
    scheme = position_scheme_factory(kind, heads=H, head_width=Dh, causal=True)()
    attention, x = layer(position=scheme), make(3, 4, D)
    cache, rows = KeyValueCache(), torch.tensor([2, 0, 2])
    cache.select(rows)  # nothing to select yet
    positions = torch.tensor([[0, 1, 2], [0, 0, 1], [5, 6, 7]])
    attention(x[:, :3], mask=causal_mask(3), positions=positions, cache=cache)
    cache.select(rows)
    last = torch.tensor([[8], [3], [8]])
    ours = attention(x[rows, 3:], positions=last, cache=cache)[0]
    whole = attention(x[rows], mask=causal_mask(4), positions=torch.cat([positions[rows], last], dim=1))[0]
    close(ours, whole[:, 3:])


def test_dropout_acts_only_in_training_and_leaves_the_returned_weights_alone():
    attention = layer(dropout=0.5)
    x = make(B, T, D)
    weights = attention(x, need_weights=True)[1]
    close(weights.sum(-1), torch.ones(B, H, T, dtype=x.dtype))
    assert not torch.equal(attention(x)[0], attention(x)[0])
    attention.eval()
    assert torch.equal(attention(x)[0], attention(x)[0])
    close(attention(x)[0], attention(x, need_weights=True)[0])


def test_dropout_reaches_the_path_with_a_score_bias():
    attention = layer(
        dropout=0.5, position=position_scheme_factory("alibi", heads=H, head_width=Dh, causal=False)()
    )
    x = make(B, T, D)
    assert not torch.equal(attention(x)[0], attention(x)[0])
    attention.eval()
    assert torch.equal(attention(x)[0], attention(x)[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow(dtype):
    attention = seeded(MultiHeadAttention, D, H, kv_heads=2).to(dtype)
    with torch.no_grad():
        attention.query_projection.weight.mul_(200)
    for need_weights in (True, False):
        output, _ = attention(make(B, T, D, dtype=dtype), mask=causal_mask(T), need_weights=need_weights)
        assert output.dtype == dtype and output.isfinite().all()


def test_autocast_may_choose_the_dtype():
    attention = seeded(MultiHeadAttention, D, H)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, _ = attention(make(B, T, D, dtype=torch.float32), mask=causal_mask(T))
    assert output.dtype == torch.bfloat16 and output.isfinite().all()


def test_non_contiguous_and_empty_inputs_are_fine():
    attention = layer()
    wide = make(B, T, 2 * D)
    close(attention(wide[..., ::2])[0], attention(wide[..., ::2].contiguous())[0])
    assert attention(make(B, 0, D))[0].shape == (B, 0, D)
    close(attention(make(B, T, D), make(B, 0, D))[0], attention.output_projection.bias.expand(B, T, D))


def test_gradients_are_right():
    attention = seeded(MultiHeadAttention, 4, 2, kv_heads=1).double()
    x, memory = make(1, 2, 4).requires_grad_(), make(1, 3, 4, seed=1).requires_grad_()
    mask = torch.tensor([[True, False, True], [False, False, False]])
    assert torch.autograd.gradcheck(lambda a, b: attention(a, b, mask)[0], (x, memory))


def test_the_function_computes_each_head_with_scaled_dot_product_attention():
    x = make(B, T, D)
    w_query, w_key, w_value = (make(2, D, 3, seed=s) for s in (1, 2, 3))
    w_output = make(6, D, seed=4)
    output, weights = multi_head_attention(x, x, x, w_query, w_key, w_value, w_output)
    heads = [scaled_dot_product_attention(x @ w_query[h], x @ w_key[h], x @ w_value[h]) for h in range(2)]
    close(output, heads[0][0] @ w_output[:3] + heads[1][0] @ w_output[3:])
    close(weights[:, 1], heads[1][1])


X, MEMORY, LAYER = make(B, T, D), make(B, S, D), layer()
W = make(H, D, Dh)


def full_cache():
    cache = KeyValueCache()
    LAYER(X, MEMORY, cache=cache)
    return cache


def self_cache():
    cache = KeyValueCache()
    LAYER(X, cache=cache)
    return cache


def extended(keys=2, values=2, positions=2, dtype=torch.float64):
    """What a cache of two tokens says to new ones of these lengths."""
    cache, real = KeyValueCache(), torch.float64
    with torch.no_grad():
        old = torch.zeros(1, 1, 2, 4, dtype=real)
        cache.extend(old, old, torch.arange(2)[None])
        new = (torch.zeros(1, 1, length, 4, dtype=dtype) for length in (keys, values))
        return cache.extend(*new, torch.arange(positions)[None])


@error_table(
    [
        ("cache: values", lambda: extended(values=1), ("same batch, heads and T", "(1, 1, 1, 4)")),
        ("cache: positions", lambda: extended(positions=5), ("same batch, heads and T", "(1, 5)")),
        ("cache: dtype", lambda: extended(dtype=torch.float32), ("dtype and device", "float32", "float64")),
        ("heads that do not divide", lambda: MultiHeadAttention(10, 3), ("divisible", "10", "3")),
        (
            "kv_heads that do not divide",
            lambda: MultiHeadAttention(12, 4, kv_heads=3),
            ("kv_heads", "4", "3"),
        ),
        ("no heads", lambda: MultiHeadAttention(12, 0), ("heads", "0")),
        ("dropout 1.5", lambda: MultiHeadAttention(12, 4, dropout=1.5), ("[0, 1)", "1.5")),
        ("wrong rank", lambda: LAYER(X[0]), ("(B, T, 24)", "(5, 24)")),
        ("swapped axes", lambda: LAYER(X.transpose(1, 2)), ("(B, T, 24)", "(2, 24, 5)")),
        ("ids", lambda: LAYER(torch.zeros(B, T, D, dtype=torch.long)), ("floating point", "int64")),
        ("a list", lambda: LAYER([1.0]), ("x must be a torch.Tensor", "list")),
        ("mixed dtypes", lambda: LAYER(X.float()), ("float64", "float32")),
        ("other device", lambda: LAYER(X.to("meta")), ("cpu", "meta")),
        ("memory: width", lambda: LAYER(X, MEMORY[..., :4]), ("memory", "(B, T, 24)", "(2, 7, 4)")),
        ("memory: batch", lambda: LAYER(X, MEMORY[:1]), ("same batch size", "2", "1")),
        ("memory: dtype", lambda: LAYER(X, MEMORY.float()), ("memory", "float64", "float32")),
        ("mask: float", lambda: LAYER(X, mask=torch.zeros(T, T)), ("boolean", "float32")),
        ("mask: (B, T, S)", lambda: LAYER(X, mask=torch.ones(B, T, T).bool()), ("(2, 5, 5)", "(2, 4, 5, 5)")),
        ("mask: transposed", lambda: LAYER(X, MEMORY, torch.ones(S, T).bool()), ("(7, 5)", "(2, 4, 5, 7)")),
        (
            "mask: new tokens only",
            lambda: LAYER(X, mask=causal_mask(T), cache=self_cache()),
            ("(5, 5)", "(2, 4, 5, 10)"),
        ),
        ("cache: another memory", lambda: LAYER(X, X, cache=full_cache()), ("7 keys", "memory has 5")),
        ("cache: another batch", lambda: LAYER(X[:1], cache=self_cache()), ("(1, 4, 5, 6)", "(2, 4, 5, 6)")),
        (
            "scheme and memory",
            lambda: layer(position=Rotary(Dh))(X, MEMORY),
            ("Rotary", "one sequence"),
        ),
        (
            "positions: too few",
            lambda: layer(position=Rotary(Dh))(X, positions=torch.arange(3)[None]),
            ("(1 or 2, 5)", "(1, 3)"),
        ),
        (
            "no memory",
            lambda: seeded(MultiHeadAttention, D, H, memory_width=4).double()(X),
            ("width 4", "24"),
        ),
        ("rows: a list", lambda: full_cache().select([0]), ("rows must be a torch.Tensor", "list")),
        (
            "function: rank of a weight",
            lambda: multi_head_attention(X, X, X, W[0], W, W, make(D, D)),
            ("w_query", "(heads, 24, Dh)", "(24, 6)"),
        ),
        (
            "function: heads",
            lambda: multi_head_attention(X, X, X, W, W[:3], W[:3], make(D, D)),
            ("a divisor", "3, 3 and 4"),
        ),
        (
            "function: mask (B, T, S)",
            lambda: multi_head_attention(X, X, X, W, W, W, make(D, D), torch.ones(B, T, T).bool()),
            ("(B, 4, T, S)", "(2, 5, 5)"),
        ),
        (
            "function: heads of the mask",
            lambda: multi_head_attention(X, X, X, W, W, W, make(D, D), torch.ones(B, 3, T, T).bool()),
            ("(B, 4, T, S)", "(2, 3, 5, 5)"),
        ),
        (
            "function: output: a list",
            lambda: multi_head_attention(X, X, X, W, W, W, [1.0]),
            ("w_output must be a torch.Tensor", "list"),
        ),
        (
            "function: output",
            lambda: multi_head_attention(X, X, X, W, W, W, make(D - 1, D)),
            ("w_output", "(24, D)", "(23, 24)"),
        ),
        ("function: rank", lambda: multi_head_attention(X[0], X, X, W, W, W, W), ("query", "(5, 24)")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
