import math

import pytest
import torch
import torch.nn.functional as F

from tutorial_lib.attention import fused_attention, masked_softmax, scaled_dot_product_attention
from tutorial_lib.masks import causal_mask, combine_masks, padding_mask

B, H, T, S, Dh, Dv = 2, 3, 4, 5, 6, 7


def explicit_attention(*args, **kwargs):
    return scaled_dot_product_attention(*args, **kwargs)[0]


PATHS = pytest.mark.parametrize("attend", [explicit_attention, fused_attention])


def make(*shape, dtype=torch.float64, seed=0, grad=True):
    data = torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))
    return data.requires_grad_(grad)


def inputs(dtype=torch.float64):
    return (
        make(B, H, T, Dh, dtype=dtype, seed=1),
        make(B, H, S, Dh, dtype=dtype, seed=2),
        make(B, H, S, Dv, dtype=dtype, seed=3),
    )


def random_mask(shape=(B, H, T, S)):
    """About half of the cells, and every key forbidden to the second query."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(4)) < 0.5
    mask[..., 0] = True
    mask[..., 1, :] = False
    return mask


MASKS = {
    "none": None,
    "causal": causal_mask(T, S),
    "padding": padding_mask(lengths=[5, 3]),
    "both": combine_masks(padding_mask(lengths=[3, 5]), causal_mask(T, S)),
    "an empty sequence": padding_mask(lengths=[0, 4], size=S),
    "random with an empty row": random_mask(),
    "(T, S) with an empty row": random_mask((T, S)),
    "nothing allowed": torch.zeros(T, S, dtype=torch.bool),
}
EACH_MASK = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())


def by_loops(query, key, value, mask):
    """Scores, weights and sums one number at a time, as in the definition."""
    allowed = torch.ones(B, H, T, S, dtype=torch.bool) if mask is None else mask.expand(B, H, T, S)
    weights, output = torch.zeros(B, H, T, S, dtype=query.dtype), torch.zeros(B, H, T, Dv, dtype=query.dtype)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                keys = [s for s in range(S) if allowed[b, h, t, s]]
                scores = {
                    s: sum((query[b, h, t, d] * key[b, h, s, d]).item() for d in range(Dh)) / math.sqrt(Dh)
                    for s in keys
                }
                total = sum(math.exp(score) for score in scores.values())
                for s in keys:
                    weights[b, h, t, s] = math.exp(scores[s]) / total
                    output[b, h, t] += weights[b, h, t, s] * value[b, h, s].detach()
    return output, weights


@EACH_MASK
def test_explicit_path_equals_three_loops(mask):
    query, key, value = inputs()
    output, weights = scaled_dot_product_attention(query, key, value, mask)
    expected_output, expected_weights = by_loops(query, key, value, mask)
    torch.testing.assert_close(output, expected_output, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights, expected_weights, rtol=0, atol=1e-12)


@PATHS
@EACH_MASK
def test_values_and_gradients_equal_torchs_own_attention(attend, mask):
    upstream = make(B, H, T, Dv, seed=9, grad=False)
    results = []
    for function in (attend, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m)):
        tensors = inputs()
        output = function(*tensors, mask)
        output.backward(upstream)
        results.append([output, *(tensor.grad for tensor in tensors)])
    for ours, torchs in zip(*results, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("mask", [None, random_mask((T, S))])
def test_gradients_equal_finite_differences(mask):
    tensors = [make(n, d, seed=n) for n, d in ((T, Dh), (S, Dh), (S, Dv))]
    assert torch.autograd.gradcheck(lambda *t: scaled_dot_product_attention(*t, mask), tensors)
    assert torch.autograd.gradcheck(lambda *t: fused_attention(*t, mask), tensors)


@PATHS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_row_without_an_allowed_key_is_zero_in_output_and_gradient(attend, dtype):
    query, key, value = inputs(dtype)
    output = attend(query, key, value, torch.zeros(T, S, dtype=torch.bool))
    output.sum().backward()
    assert output.dtype == dtype and torch.equal(output, torch.zeros_like(output))
    for tensor in (query, key, value):
        assert torch.equal(tensor.grad, torch.zeros_like(tensor))


@PATHS
@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("dropout_p", [0.0, 0.5])
def test_row_without_an_allowed_key_is_zero_even_if_a_value_is_not_finite(attend, bad, dropout_p):
    query, key, value = (tensor.detach() for tensor in inputs())
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[1] = False
    expected = attend(query, key, value, mask)
    value[..., 2, :] = bad
    output = attend(query, key, value, mask, dropout_p=dropout_p)
    assert torch.equal(output[..., 1, :], torch.zeros(B, H, Dv, dtype=torch.float64))
    assert expected.isfinite().all() and not output[..., [0, 2, 3], :].isfinite().all()


def test_row_without_an_allowed_key_has_zero_weights_and_others_sum_to_one():
    mask = random_mask()
    scores = make(B, H, T, S)
    weights = masked_softmax(scores, mask)
    sums = weights.sum(-1)
    assert torch.equal(
        weights[~mask.expand_as(weights)], torch.zeros(int((~mask).sum()), dtype=torch.float64)
    )
    torch.testing.assert_close(sums, mask.any(-1).double())
    (weights * make(B, H, T, S, seed=7, grad=False)).sum().backward()
    assert scores.grad.isfinite().all()
    assert (scores.grad[~mask] == 0).all() and (scores.grad[:, :, 1] == 0).all()
    assert (scores.grad[:, :, 0] != 0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_forbidden_keys_get_nothing_even_if_allowed_scores_are_very_low(dtype):
    lowest = torch.finfo(dtype).min
    scores = torch.tensor([[lowest, lowest, 0.0]], dtype=dtype)
    weights = masked_softmax(scores, torch.tensor([[True, True, False]]))
    assert weights.tolist() == [[0.5, 0.5, 0.0]]


@PATHS
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float16, 4e-3), (torch.bfloat16, 3e-2)])
def test_half_precision_is_close_to_double_and_keeps_its_dtype(attend, dtype, atol):
    query, key, value = (tensor.detach() for tensor in inputs(dtype))
    output = attend(query, key, value, random_mask())
    expected = explicit_attention(query.double(), key.double(), value.double(), random_mask())
    assert output.dtype == dtype
    torch.testing.assert_close(output.double(), expected, rtol=0, atol=atol)


@PATHS
def test_scores_that_fit_after_scaling_do_not_overflow_in_fp16(attend):
    query = torch.full((1, 256), 20.0, dtype=torch.float16)  # 256 * 20 * 20 = 102400 > 65504
    key = torch.cat([query, query / 2])
    value = torch.tensor([[1.0], [0.0]], dtype=torch.float16)
    assert attend(query, key, value).item() == 1.0
    assert attend(query, -key, value).item() == 0.0


@PATHS
def test_non_contiguous_input_gives_the_same(attend):
    query, key, value = inputs()
    turned = [tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in (query, key, value)]
    mask = random_mask().transpose(2, 3).contiguous().transpose(2, 3)
    assert not any(tensor.is_contiguous() for tensor in (*turned, mask))
    expected = attend(query, key, value, random_mask())
    torch.testing.assert_close(attend(*turned, mask), expected, rtol=0, atol=1e-14)


@PATHS
@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 1, 3)])
def test_any_number_of_leading_dimensions(attend, leading):
    query, key, value = make(*leading, T, Dh), make(*leading, S, Dh, seed=1), make(*leading, S, Dv, seed=2)
    output = attend(query, key, value, causal_mask(T, S))
    assert output.shape == (*leading, T, Dv)
    flat = [tensor.reshape(-1, *tensor.shape[-2:]) for tensor in (query, key, value)]
    one_by_one = torch.stack([attend(*triple, causal_mask(T, S)) for triple in zip(*flat, strict=True)])
    torch.testing.assert_close(output.reshape(-1, T, Dv), one_by_one, rtol=0, atol=1e-14)


@PATHS
def test_one_query_one_key(attend):
    value = make(1, 3)
    assert torch.equal(attend(make(1, 1), make(1, 1, seed=1), value, causal_mask(1)), value)


@PATHS
def test_no_keys_at_all_gives_zeros(attend):
    assert torch.equal(attend(make(1, T, Dh), make(1, 0, Dh), make(1, 0, Dv)), torch.zeros(1, T, Dv).double())


def test_scale_is_the_root_of_the_width_of_one_key():
    query, key = make(20_000, 1, 64, seed=5), make(20_000, 1, 64, seed=6)
    raw = (query * key).sum(-1)
    assert abs(raw.std() - 8) < 0.2
    # Two keys, k and 0: the weight of the first is the sigmoid of its scaled score.
    key = torch.cat([key, torch.zeros_like(key)], dim=1)
    weights = scaled_dot_product_attention(query, key, key)[1]
    torch.testing.assert_close(weights[..., 0], torch.sigmoid(raw / 8))


@PATHS
def test_dropout_acts_only_where_it_is_asked_for_and_keeps_the_mean(attend):
    query, key = make(1, 4000, Dh), make(1, S, Dh, seed=1)
    value = torch.ones(1, S, 1, dtype=torch.float64)
    torch.testing.assert_close(attend(query, key, value), torch.ones(1, 4000, 1, dtype=torch.float64))
    torch.manual_seed(0)
    dropped = attend(query, key, value, dropout_p=0.5)
    assert dropped.std() > 0.1 and abs(dropped.mean() - 1) < 0.05
    assert attend(query, key, value, dropout_p=1.0).abs().max() == 0


def test_returned_weights_are_those_before_dropout():
    query, key, value = inputs()
    torch.manual_seed(0)
    weights = scaled_dot_product_attention(query, key, value, dropout_p=0.9)[1]
    torch.testing.assert_close(weights, scaled_dot_product_attention(query, key, value)[1])


def test_nothing_is_changed_in_place():
    scores, mask = make(T, S, grad=False), random_mask((T, S))
    before = scores.clone(), mask.clone()
    masked_softmax(scores, mask)
    assert torch.equal(scores, before[0]) and torch.equal(mask, before[1])


Q, K, V = torch.zeros(B, H, T, Dh), torch.zeros(B, H, S, Dh), torch.zeros(B, H, S, Dv)
ONES = torch.ones(T, S, dtype=torch.bool)


@PATHS
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Q.tolist(), K, V), "query must be a torch.Tensor, got list"),
        ((Q, K[0, 0, 0], V), r"key must be at least \(length, width\), got \(6,\)"),
        ((Q, K, V.long()), "value must be fp16, bf16, fp32 or fp64, got torch.int64"),
        ((Q.to(torch.float8_e4m3fn), K, V), "query must be fp16, .*, got torch.float8_e4m3fn"),
        ((Q, K.double(), V), "same dtype, got torch.float32, torch.float64, torch.float32"),
        ((Q, K, V.to("meta")), "same device, got cpu, cpu, meta"),
        ((Q[:1], K, V), r"same leading dimensions, got \(1, 3\), \(2, 3\), \(2, 3\)"),
        ((Q, K[0], V[0]), r"same leading dimensions, got \(2, 3\), \(3,\), \(3,\)"),
        ((Q[..., :4], K, V), "query and key must have the same width, got 4 and 6"),
        ((Q, K, V[..., :3, :]), "key and value must have the same length, got 5 and 3"),
        ((Q, K, V, ONES.float()), r"boolean tensor \(True = may attend\), got torch.float32"),
        ((Q, K, V, ONES.long()), "boolean .*, got torch.int64"),
        ((Q, K, V, ONES.tolist()), "boolean .*, got list"),
        ((Q, K, V, ONES.T), r"got \(5, 4\) for scores of \(2, 3, 4, 5\)"),
        ((Q, K, V, ONES.expand(H, T, S)), r"got \(3, 4, 5\) for scores of \(2, 3, 4, 5\)"),
        ((Q, K, V, ONES[0]), r"got \(5,\) for scores"),
        ((Q, K, V, ONES.expand(1, B, H, T, S)), r"got \(1, 2, 3, 4, 5\) for scores"),
        ((Q[:1], K[:1], V[:1], ONES.expand(B, 1, T, S)), r"got \(2, 1, 4, 5\) for scores of \(1, 3, 4, 5\)"),
        ((Q, K, V, ONES.to("meta")), "mask and query must be on the same device, got meta and cpu"),
    ],
)
def test_bad_input_names_both_sides(attend, arguments, words):
    with pytest.raises(ValueError, match=words):
        attend(*arguments)


@PATHS
@pytest.mark.parametrize("dropout_p", [-0.1, 1.1])
def test_dropout_outside_zero_to_one_is_refused(attend, dropout_p):
    with pytest.raises(ValueError, match=f"between 0 and 1, got {dropout_p}"):
        attend(Q, K, V, dropout_p=dropout_p)


@pytest.mark.parametrize(
    ("scores", "mask", "words"),
    [
        (torch.zeros(5), None, r"float32 of \(5,\)"),
        (torch.zeros(4, 5, dtype=torch.long), None, "int64"),
        (torch.zeros(4, 5).to(torch.float8_e4m3fn), ONES, "fp16, bf16, fp32 or fp64, got torch.float8_e4m3"),
        (torch.zeros(4, 5), ONES.float(), "float32"),
        (torch.zeros(4, 5), ONES.to("meta"), "mask and scores must be on the same device, got meta and cpu"),
        (torch.zeros(2, 3, 4, 5), ONES.expand(3, 4, 5), r"\(3, 4, 5\) for scores of \(2, 3, 4, 5\)"),
        (torch.zeros(4, 5), ONES.T, r"\(5, 4\) for scores of \(4, 5\)"),
    ],
)
def test_masked_softmax_refuses_what_does_not_fit(scores, mask, words):
    with pytest.raises(ValueError, match=words):
        masked_softmax(scores, mask)
