import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make, seeded

from tutorial_lib.masks import causal_mask
from tutorial_lib.multihead import MultiHeadAttention
from tutorial_lib.relative_positions import (
    SCHEMES,
    ALiBi,
    PositionScheme,
    Rotary,
    ShawPositions,
    T5Bias,
    alibi_slopes,
    apply_rotary,
    position_scheme_factory,
    relative_distance,
    t5_bucket,
)

B, H, T, S, Dh = 2, 4, 5, 7, 6
QUERIES, KEYS = torch.arange(2, 2 + T)[None], torch.arange(S)[None]


def scheme(kind, causal=False):
    return seeded(position_scheme_factory(kind, heads=H, head_width=Dh, causal=causal)).double()


def test_the_distance_is_positive_for_keys_after_the_query():
    assert relative_distance(torch.tensor([1]), torch.tensor([0, 1, 3])).tolist() == [[-1, 0, 2]]


def test_alibi_slopes_are_those_of_the_paper():
    assert alibi_slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    close(alibi_slopes(12)[8:], torch.tensor([2.0 ** (-(i + 0.5)) for i in range(4)]), 1e-7)
    assert alibi_slopes(1).tolist() == [2.0**-8]


def test_alibi_subtracts_slope_times_distance():
    bias = scheme("alibi").score_bias(make(B, H, T, Dh), QUERIES, KEYS)
    assert bias.shape == (1, H, T, S)
    assert bias[0, 2, 1, 6].item() == pytest.approx(-alibi_slopes(H)[2].item() * 3)
    assert bias[0, 2, 3, 0].item() == pytest.approx(-alibi_slopes(H)[2].item() * 5)
    assert (bias <= 0).all()


@pytest.mark.parametrize("causal", [True, False])
def test_t5_buckets_equal_those_of_the_reference(causal):
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-300, 301)
    for buckets, longest in ((32, 128), (8, 20), (16, 64)):
        expected = T5Attention._relative_position_bucket(distance, not causal, buckets, longest)
        ours = t5_bucket(distance, buckets=buckets, max_distance=longest, causal=causal)
        assert ours.equal(expected)


def test_t5_adds_its_number_for_head_and_bucket():
    t5 = scheme("t5")
    with torch.no_grad():
        t5.table.copy_(make(32, H))
    bias = t5.score_bias(make(B, H, T, Dh), QUERIES, KEYS)
    assert bias.shape == (1, H, T, S)
    assert bias[0, 3, 0, 6] == t5.table[t5_bucket(torch.tensor(4)), 3]
    assert bias[0, 1, 4, 0] == t5.table[t5_bucket(torch.tensor(-6)), 1]


def test_shaw_attention_is_the_formula_with_a_vector_for_each_pair():
    shaw = seeded(ShawPositions, Dh, max_distance=3).double()
    attention = seeded(MultiHeadAttention, H * Dh, H, position=shaw).double()
    x = make(B, T, H * Dh)
    output, weights = attention(x, need_weights=True)
    split = [attention._split(p(x), H) for p in (attention.query_projection, attention.key_projection)]
    value = attention._split(attention.value_projection(x), H)
    expected = torch.zeros(B, H, T, Dh, dtype=x.dtype)
    for i in range(T):
        clipped = [max(-3, min(3, j - i)) + 3 for j in range(T)]
        keys = torch.stack([split[1][:, :, j] + shaw.key_vectors[c] for j, c in enumerate(clipped)], 2)
        values = torch.stack([value[:, :, j] + shaw.value_vectors[c] for j, c in enumerate(clipped)], 2)
        row = torch.softmax((keys @ split[0][:, :, i, :, None])[..., 0] / Dh**0.5, -1)
        close(row, weights[:, :, i])
        expected[:, :, i] = (row[..., None, :] @ values)[..., 0, :]
    close(attention.output_projection(expected.transpose(1, 2).flatten(2)), output)


def test_shaw_without_values_adds_nothing_to_the_output():
    shaw = seeded(ShawPositions, Dh, values=False)
    assert shaw.value_bias(make(B, H, T, S), QUERIES, KEYS) is None
    assert [name for name, _ in shaw.named_parameters()] == ["key_vectors"]


@pytest.mark.parametrize("layout", ["adjacent", "halves"])
def test_rotary_turns_each_pair_by_its_own_angle(layout):
    x, positions = make(1, 1, 3, Dh), torch.tensor([[0, 1, 9]])
    turned = apply_rotary(x, positions, layout=layout)
    for t, position in enumerate([0, 1, 9]):
        for pair in range(Dh // 2):
            first, second = (2 * pair, 2 * pair + 1) if layout == "adjacent" else (pair, pair + Dh // 2)
            number = complex(x[0, 0, t, first], x[0, 0, t, second])
            angle = torch.tensor(position * 10000 ** (-2 * pair / Dh), dtype=torch.float64)
            number *= complex(angle.cos(), angle.sin())
            assert turned[0, 0, t, first].item() == pytest.approx(number.real, abs=1e-13)
            assert turned[0, 0, t, second].item() == pytest.approx(number.imag, abs=1e-13)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_rotary_computes_again_whatever_it_has_seen_before(mode):
    rotary = Rotary(Dh)
    with mode():
        one, other = torch.tensor([[3, 4]]), torch.tensor([[7, 9]])
        x, single = make(2, H, 2, Dh), make(2, H, 2, Dh, dtype=torch.float32)
        for positions in (one, other, one):
            assert torch.equal(rotary.rotate(x, positions), apply_rotary(x, positions))
            assert torch.equal(rotary.rotate(x[:1], positions), apply_rotary(x[:1], positions))
            assert torch.equal(rotary.rotate(single, positions), apply_rotary(single, positions))
        for positions in (one, other):  # nothing else differs
            assert torch.equal(rotary.rotate(x, positions), apply_rotary(x, positions))
        one[0, 1] = 11
        assert torch.equal(rotary.rotate(single, one), apply_rotary(single, one))
        with pytest.raises(ValueError):
            rotary.rotate(x[:, :, :1], one)


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 200), st.sampled_from(["adjacent", "halves"]))
def test_rotary_scores_depend_on_the_distance_alone(m, n, shift, layout):
    query, key = make(1, 1, 1, Dh, seed=1), make(1, 1, 1, Dh, seed=2)

    def score(p, q):
        turned = [apply_rotary(x, torch.tensor([[i]]), layout=layout) for x, i in ((query, p), (key, q))]
        return (turned[0] * turned[1]).sum().item()

    assert score(m, n) == pytest.approx(score(m + shift, n + shift), abs=1e-10)


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_shift_of_all_positions_changes_nothing(kind):
    attention = seeded(MultiHeadAttention, H * Dh, H, position=scheme(kind)).double()
    x = make(B, T, H * Dh)
    far = torch.arange(T)[None] + 1000
    close(attention(x)[0], attention(x, positions=far)[0], 1e-11)


@pytest.mark.parametrize("kind", sorted(set(SCHEMES) - {"alibi"}))
def test_reading_backwards_gives_other_vectors(kind):
    attention = seeded(MultiHeadAttention, H * Dh, H, position=scheme(kind)).double()
    if kind == "t5":
        torch.nn.init.normal_(attention.position.table)
    x = make(B, T, H * Dh)
    reverse = torch.arange(T - 1, -1, -1)
    turned = attention(x[:, reverse])[0][:, reverse]
    assert (turned - attention(x)[0]).abs().max() > 1e-3


def test_alibi_alone_knows_distance_but_not_direction():
    attention = seeded(MultiHeadAttention, H * Dh, H, position=scheme("alibi")).double()
    x = make(B, T, H * Dh)
    reverse = torch.arange(T - 1, -1, -1)
    close(attention(x[:, reverse])[0][:, reverse], attention(x)[0])
    shuffled = torch.tensor([2, 0, 4, 1, 3])
    assert (attention(x[:, shuffled])[0] - attention(x)[0][:, shuffled]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", SCHEMES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_dtype_and_is_finite(kind, dtype):
    attention = seeded(MultiHeadAttention, H * Dh, H, position=scheme(kind)).to(dtype)
    output, _ = attention(make(B, T, H * Dh, dtype=dtype), mask=causal_mask(T))
    assert output.dtype == dtype and output.isfinite().all()


def test_a_scheme_that_overrides_nothing_does_nothing():
    nothing = PositionScheme()
    x = make(B, H, T, Dh)
    assert nothing.rotate(x, QUERIES) is x
    assert nothing.score_bias(x, QUERIES, KEYS) is None and nothing.value_bias(x, QUERIES, KEYS) is None
    assert position_scheme_factory("learned", heads=H, head_width=Dh, causal=False) is None


X = make(B, H, T, Dh)


@error_table(
    [
        ("rotary: odd width", lambda: Rotary(5), ("even head_width", "5")),
        ("rotary: odd x", lambda: apply_rotary(X[..., :3], QUERIES), ("even Dh", "(2, 4, 5, 3)")),
        ("rotary: rank", lambda: apply_rotary(X[0], QUERIES), ("(B, H, T, Dh)", "(4, 5, 6)")),
        ("rotary: layout", lambda: Rotary(4, layout="x"), ("'adjacent'", "'x'")),
        ("rotary: positions", lambda: apply_rotary(X, KEYS), ("(1 or 2, 5)", "(1, 7)")),
        ("rotary: flat positions", lambda: apply_rotary(X, KEYS[0]), ("(1 or 2, 5)", "(7,)")),
        ("alibi: no heads", lambda: ALiBi(0), ("heads", "0")),
        ("t5: odd buckets", lambda: T5Bias(2, buckets=5), ("even", "buckets=5")),
        ("t5: too few buckets", lambda: t5_bucket(KEYS, buckets=2), ("at least 4", "buckets=2")),
        ("t5: short distance", lambda: t5_bucket(KEYS, max_distance=8), ("above 8", "max_distance=8")),
        ("t5: causal", lambda: t5_bucket(KEYS, buckets=1, causal=True), ("at least 2", "buckets=1")),
        ("shaw: distance", lambda: ShawPositions(4, 0), ("max_distance", "0")),
        (
            "shaw: other width",
            lambda: ShawPositions(4).double().score_bias(X, QUERIES, KEYS),
            ("head_width 4", "6"),
        ),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
