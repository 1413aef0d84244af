import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make_ids, seeded, set_off

from tutorial_lib.decoder_only import DecoderOnly, DecoderOnlyConfig
from tutorial_lib.feedforward import SwiGLU
from tutorial_lib.layers import LayerConfig
from tutorial_lib.normalization import RMSNorm

V = 20
KINDS = ["learned", "sinusoidal", "rotary", "rotary_halves", "alibi", "t5", "shaw", "none"]
EACH = pytest.mark.parametrize("positions", KINDS)


def config(positions="learned", **changes):
    layer = LayerConfig(12, 3, 20, kv_heads=changes.pop("kv_heads", 3), norm="pre")
    return DecoderOnlyConfig(V, layer, 2, positions, **{"max_length": 16, **changes})


def build(positions="learned", **changes):
    return set_off(seeded(DecoderOnly, config(positions, **changes)).double())


IDS = make_ids(2, 6)


@EACH
@pytest.mark.parametrize("training", [True, False])
def test_future_tokens_do_not_change_the_past(positions, training):
    model = build(positions, kv_heads=1).train(training)
    base = model(IDS)
    for t in range(1, 6):
        other = IDS.clone()
        other[:, t] = (other[:, t] + 1) % V
        changed = model(other)
        assert torch.equal(changed[:, :t], base[:, :t])
        assert not torch.equal(changed[:, t:], base[:, t:])


@EACH
@pytest.mark.parametrize("chunks", [[1] * 6, [6], [1, 5], [5, 1], [2, 1, 3]])
def test_reading_with_a_cache_gives_the_same_numbers_in_any_chunking(positions, chunks):
    model = build(positions, kv_heads=1)
    state = model.start()
    stepped = torch.cat([model.step(part, state) for part in IDS.split(chunks, dim=1)], 1)
    close(stepped, model(IDS))
    assert state.length == 6


@EACH
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-11), (torch.float32, 1e-5)])
def test_padding_on_either_side_changes_nothing(positions, side, dtype, tolerance):
    model = build(positions, padding_id=0).to(dtype)
    base = model(IDS)
    padded = model(F.pad(IDS, (3, 0) if side == "left" else (0, 3)))
    kept = padded[:, 3:] if side == "left" else padded[:, :6]
    close(kept, base, tolerance * base.abs().max().item())


@EACH
@given(data=st.data())
def test_prompts_of_different_length_go_on_as_if_they_were_alone(positions, data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    side = data.draw(st.sampled_from(["left", "right"]))
    model = build(positions, padding_id=0)
    prompts = [make_ids(n, seed=i) for i, n in enumerate(lengths)]
    more = make_ids(len(lengths), 2, seed=9)
    gaps = [max(lengths) - n for n in lengths]
    batch = [F.pad(p, (g, 0) if side == "left" else (0, g)) for p, g in zip(prompts, gaps, strict=True)]
    state = model.start()
    model.step(torch.stack(batch), state)
    first = model.step(more[:, :1], state)
    second = model.step(more[:, 1:], state)
    for row, prompt in enumerate(prompts):
        alone = model(torch.cat([prompt, more[row]])[None])
        close(first[row, 0], alone[0, -2], 1e-11)
        close(second[row, 0], alone[0, -1], 1e-11)


@EACH
def test_a_mask_says_what_is_real_where_ids_do_not(positions):
    """Also in the middle of a text, and where the padding id is a real token."""
    by_id, by_mask = build(positions, padding_id=0), build(positions)
    ids, more = IDS.clone(), make_ids(2, 2, seed=5)
    ids[0, :2], ids[1, 3:5] = 0, 0
    state, expected_state = by_mask.start(), by_id.start()
    close(by_mask.step(ids, state, real=ids != 0), by_id.step(ids, expected_state))
    for part in more.split(1, dim=1):  # the mask of the beginning is remembered
        close(by_mask.step(part, state), by_id.step(part, expected_state))
    close(by_id.step(ids, by_id.start(), real=ids >= 0), by_mask(ids))


def test_the_last_token_can_be_scored_alone():
    model = build("rotary", padding_id=0)
    state = model.start()
    close(model.step(IDS[:, :4], state, last_only=True), model(IDS)[:, 3:4])
    close(model.step(IDS[:, 4:], state, last_only=True), model(IDS)[:, 5:])
    assert model.max_length == 16 and build("rotary", max_length=None).max_length is None


def test_a_state_can_reorder_and_repeat_its_rows():
    model, rows = build("rotary", padding_id=0), torch.tensor([1, 1, 0])
    ids = IDS.clone()
    ids[1, :2] = 0
    state = model.start()
    state.select(rows)  # nothing to select yet
    model.step(ids[:, :4], state)
    state.select(rows)
    close(model.step(ids[rows, 4:], state), model(ids[rows])[:, 4:])


@pytest.mark.parametrize("form", ["gpt2", "llama"])
@pytest.mark.parametrize("tie", [True, False])
def test_the_first_loss_is_the_logarithm_of_the_vocabulary(form, tie):
    vocabulary, width = 1000, 128
    layer = LayerConfig(width, 4, 256, norm="pre")
    configs = {
        "gpt2": DecoderOnlyConfig(vocabulary, layer, 2, max_length=16, tie_weights=tie),
        "llama": DecoderOnlyConfig.llama(vocabulary, width, 4, 2, 256, 2, tie_weights=tie),
    }
    model = seeded(DecoderOnly, configs[form])
    ids, labels = make_ids(8, 16, high=vocabulary), make_ids(8, 16, high=vocabulary, seed=1)
    loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten()).item()
    assert abs(loss - math.log(vocabulary)) < 0.15


def test_the_two_forms_are_what_their_papers_say():
    gpt2 = DecoderOnlyConfig.gpt2()
    with torch.device("meta"):
        model = DecoderOnly(gpt2)
    assert sum(p.numel() for p in model.parameters()) == 124_439_808
    assert model.output.weight is model.embedding.tokens.weight
    llama = seeded(DecoderOnly, DecoderOnlyConfig.llama(V, 16, 4, 2, 20, 2))
    block = llama.blocks.layers[0]
    assert isinstance(block.feed_forward, SwiGLU) and isinstance(llama.blocks.final_norm, RMSNorm)
    assert block.attention.kv_heads == 2 and block.attention.position.layout == "halves"
    assert not any(name.endswith("bias") for name, _ in llama.named_parameters())
    assert llama.output.weight is not llama.embedding.tokens.weight


def test_what_writes_into_the_residual_sum_starts_smaller():
    layer = LayerConfig(64, 4, 128, norm="pre", feed_forward="swiglu")
    model = seeded(DecoderOnly, DecoderOnlyConfig(V, layer, 8, "none"))
    block = model.blocks.layers[3]
    for writes in (block.attention.output_projection, block.feed_forward.down):
        assert writes.weight.std().item() == pytest.approx(0.02 / 4, rel=0.1)
    for reads in (block.attention.query_projection, block.feed_forward.gate):
        assert reads.weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_without_a_limit_a_text_may_be_long():
    model = build("rotary", max_length=None)
    assert model(make_ids(1, 40)).isfinite().all()


def test_a_row_of_nothing_but_padding_stays_finite():
    model = build("learned", padding_id=0)
    ids = IDS.clone()
    ids[1] = 0
    output = model(ids)
    assert output.isfinite().all()
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


@EACH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite(positions, dtype):
    output = build(positions).to(dtype)(IDS)
    assert output.dtype == dtype and output.isfinite().all()


def test_dropout_acts_only_in_training():
    model = seeded(DecoderOnly, DecoderOnlyConfig.gpt2(V, 12, 3, 2, 16, dropout=0.5))
    assert not torch.equal(model(IDS), model(IDS))
    model.eval()
    assert torch.equal(model(IDS), model(IDS))


MODEL = build()


def started(ids):
    state = MODEL.start()
    MODEL.step(ids, state)
    return state


@error_table(
    [
        ("positions", lambda: config("rope"), ("'rotary'", "'rope'")),
        ("no length", lambda: config(max_length=None), ("max_length", "None")),
        ("padding id", lambda: config(padding_id=-1), ("0 and 19", "-1")),
        ("layers", lambda: DecoderOnlyConfig(V, LayerConfig(4, 1, 4), 0), ("layers", "0")),
        (
            "odd rotary width",
            lambda: DecoderOnly(DecoderOnlyConfig(V, LayerConfig(9, 3, 4), 1, "rotary")),
            ("even head_width", "3"),
        ),
        ("id", lambda: MODEL(IDS + 20), ("0 and 19",)),
        ("float ids", lambda: MODEL(IDS.float()), ("int64", "float32")),
        ("one text", lambda: MODEL(IDS[0]), ("(B, T)", "(6,)")),
        ("too long", lambda: MODEL(make_ids(1, 17)), ("at most 16 tokens (max_length)", "17")),
        ("too long in steps", lambda: MODEL.step(make_ids(2, 11), started(IDS)), ("at most 16", "17")),
        ("another batch", lambda: MODEL.step(IDS[:1], started(IDS)), ("same batch size", "1 and 2")),
        ("real: shape", lambda: MODEL.step(IDS, MODEL.start(), real=IDS[:1] > 0), ("(2, 6)", "(1, 6)")),
        ("real: dtype", lambda: MODEL.step(IDS, MODEL.start(), real=IDS), ("bool", "int64")),
        ("device", lambda: MODEL(IDS.to("meta")), ("ids", "cpu", "meta")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
