import pytest
import torch
import torch.nn.functional as F
from support import assert_raises, close, error_table, make, make_ids, seeded, set_off

from tutorial_lib.encoder_only import EncoderOnly, EncoderOnlyConfig, mean_pooling
from tutorial_lib.layers import LayerConfig

V = 20
KINDS = ["learned", "sinusoidal", "rotary", "rotary_halves", "alibi", "t5", "shaw", "none"]
EACH = pytest.mark.parametrize("positions", KINDS)


def config(positions="sinusoidal", **changes):
    return EncoderOnlyConfig(V, LayerConfig(12, 3, 20), 2, positions, **{"max_length": 16, **changes})


def build(positions="sinusoidal", **changes):
    return set_off(seeded(EncoderOnly, config(positions, **changes)).double())


IDS = make_ids(2, 6)


@EACH
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-11), (torch.float32, 1e-5)])
def test_padding_on_either_side_changes_nothing(positions, side, dtype, tolerance):
    model = build(positions).to(dtype)
    base = model(IDS)
    padded = model(F.pad(IDS, (3, 0) if side == "left" else (0, 3)))
    kept = padded[:, 3:] if side == "left" else padded[:, :6]
    close(kept, base, tolerance * base.abs().max().item())


@pytest.mark.parametrize("positions", KINDS)
def test_without_positions_equal_tokens_are_equal_and_with_them_not(positions):
    model = build(positions)
    ids = torch.tensor([[3, 5, 3, 7, 3]])
    output = model(ids)[0]
    same = torch.allclose(output[0], output[2], atol=1e-12)
    assert same == (positions == "none")


def test_without_positions_the_outputs_move_with_the_tokens():
    model, order = build("none"), torch.tensor([3, 0, 5, 1, 4, 2])
    close(model(IDS[:, order]), model(IDS)[:, order])


def test_every_token_sees_both_sides():
    model = build()
    base = model(IDS)
    for t in (0, 5):
        other = IDS.clone()
        other[:, t] = (other[:, t] % (V - 1)) + 1
        assert ((model(other) - base).abs().amax(-1) > 0).all()


def test_bert_has_the_number_of_parameters_of_its_base_model_without_pooler():
    with torch.device("meta"):
        model = EncoderOnly(EncoderOnlyConfig.bert())
    assert sum(p.numel() for p in model.parameters()) == 108_891_648


def test_segments_change_the_output():
    model = build("learned", segments=2, embedding_norm=True)
    segments = torch.zeros_like(IDS)
    close(model(IDS), model(IDS, segments), 0)
    segments[:, 3:] = 1
    assert (model(IDS, segments) - model(IDS)).abs().max() > 1e-3


def test_a_text_of_nothing_but_padding_stays_finite_with_finite_gradients():
    model = build()
    ids = IDS.clone()
    ids[1] = 0
    output = model(ids)
    close(output[:1], model(IDS[:1]))
    assert output.isfinite().all()
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_without_a_padding_id_every_id_is_a_token():
    model = build(padding_id=None)
    zeros = F.pad(IDS, (0, 2))
    assert (model(zeros)[:, :6] - model(IDS)).abs().max() > 1e-3


def test_mean_pooling_averages_the_real_tokens_alone():
    vectors, real = make(3, 4, 5), torch.tensor([[1, 1, 1, 1], [0, 1, 1, 0], [0, 0, 0, 0]]).bool()
    vectors[1, 3] = float("nan")
    pooled = mean_pooling(vectors.requires_grad_(), real)
    close(pooled[0], vectors[0].mean(0))
    close(pooled[1], (vectors[1, 1] + vectors[1, 2]) / 2)
    assert not pooled[2].any()
    pooled.sum().backward()
    assert not vectors.grad[~real].any() and vectors.grad[real].all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mean_pooling_of_a_long_text_does_not_overflow(dtype):
    pooled = mean_pooling(torch.full((1, 512, 2), 200.0, dtype=dtype), torch.ones(1, 512, dtype=torch.bool))
    assert pooled.dtype == dtype and (pooled == 200).all()


@error_table(
    [
        (
            "pooling, one number",
            lambda: mean_pooling(torch.tensor(1.0), torch.tensor(True)),
            ("real must be", "()"),
        ),
        ("pooling, shape", lambda: mean_pooling(make(2, 4, 5), IDS > 0), ("(2, 4)", "(2, 6)")),
        ("pooling, dtype", lambda: mean_pooling(make(2, 6, 5), IDS), ("bool", "int64")),
        ("positions", lambda: config("absolute"), ("'sinusoidal'", "'absolute'")),
        ("padding id", lambda: config(padding_id=20), ("0 and 19", "20")),
        ("segments", lambda: config(segments=-1), ("segments", "-1")),
        ("id", lambda: build()(IDS + 20), ("0 and 19",)),
        ("too long", lambda: build()(make_ids(1, 17)), ("at most 16 tokens (max_length)", "17")),
        ("segment ids", lambda: build()(IDS, IDS), ("no segment vectors",)),
        ("one text", lambda: build()(IDS[0]), ("(B, T)", "(6,)")),
        ("device", lambda: build()(IDS.to("meta")), ("ids", "cpu", "meta")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
