import math

import pytest
import torch
import torch.nn.functional as F
from support import assert_raises, close, error_table, make_ids, seeded, set_off
from torch import nn

from tutorial_lib.interop import to_torch_transformer
from tutorial_lib.layers import LayerConfig
from tutorial_lib.masks import causal_mask
from tutorial_lib.transformer import Transformer, TransformerConfig

V = 20
EACH = pytest.mark.parametrize("norm, tie", [("post", True), ("pre", False)])


def config(norm="post", **changes):
    layer = LayerConfig(12, 3, 20, norm=norm, dropout=changes.pop("dropout", 0.0))
    return TransformerConfig(V, V, layer, **{"encoder_layers": 2, "decoder_layers": 2, **changes})


def build(norm="post", **changes):
    return set_off(seeded(Transformer, config(norm, **changes)).double())


SOURCE, TARGET = make_ids(2, 7), make_ids(2, 5, seed=1)


@EACH
@pytest.mark.parametrize("training", [True, False])
def test_future_target_tokens_do_not_change_the_past(norm, tie, training):
    model = build(norm, tie_weights=tie).train(training)
    base = model(SOURCE, TARGET)
    for t in range(1, TARGET.size(1)):
        other = TARGET.clone()
        other[:, t] = (other[:, t] + 1) % V
        changed = model(SOURCE, other)
        assert torch.equal(changed[:, :t], base[:, :t])
        assert not torch.equal(changed[:, t:], base[:, t:])


@EACH
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_padding_of_source_and_target_changes_nothing(norm, tie, dtype, tolerance):
    model = build(norm, tie_weights=tie).to(dtype)
    base = model(SOURCE, TARGET)
    padded = model(F.pad(SOURCE, (0, 4)), F.pad(TARGET, (0, 3)))
    close(padded[:, :5], base, tolerance * base.abs().max().item())


def test_padding_before_and_inside_the_source_changes_nothing():
    model = build()
    gap = torch.cat([SOURCE[:, :2], torch.zeros_like(SOURCE[:, :2]), SOURCE[:, 2:]], dim=1)
    base = model(SOURCE, TARGET)
    for padded in (F.pad(SOURCE, (3, 0)), gap):
        close(model(padded, TARGET), base)


def test_padding_of_one_source_row_hides_its_columns_in_encoder_and_decoder():
    model = build()
    short = SOURCE.clone()
    short[1, 4:] = 0
    close(model(short, TARGET)[1:], model(SOURCE[1:, :4], TARGET[1:]))


def test_every_source_token_reaches_every_target_position():
    model = build()
    base = model(SOURCE, TARGET)
    for s in range(SOURCE.size(1)):
        other = SOURCE.clone()
        other[:, s] = (other[:, s] % (V - 1)) + 1
        assert ((model(other, TARGET) - base).abs().amax(-1) > 0).all()


@EACH
@pytest.mark.parametrize("chunks", [[1] * 5, [5], [1, 4], [4, 1], [2, 2, 1]])
def test_decoding_with_a_cache_gives_the_same_numbers_in_any_chunking(norm, tie, chunks):
    model = build(norm, tie_weights=tie)
    source = SOURCE.clone()
    source[1, 4:] = 0
    state = model.start(source)
    stepped = torch.cat([model.step(part, state) for part in TARGET.split(chunks, dim=1)], 1)
    close(stepped, model(source, TARGET))
    assert state.length == 5


def test_a_state_can_reorder_and_repeat_its_rows():
    model, rows = build(), torch.tensor([1, 1, 0])
    source = SOURCE.clone()
    source[1, 4:] = 0
    state = model.start(source)
    model.step(TARGET[:, :3], state)
    state.select(rows)
    close(model.step(TARGET[rows, 3:], state), model(source[rows], TARGET[rows])[:, 3:])


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("width", [64, 256])
def test_the_first_loss_is_the_logarithm_of_the_vocabulary(tie, norm, width):
    vocabulary = 1000
    layer = LayerConfig(width, 4, 2 * width, norm=norm)
    model = seeded(Transformer, TransformerConfig(vocabulary, vocabulary, layer, 2, 2, tie_weights=tie))
    source, target = make_ids(8, 9, high=vocabulary), make_ids(8, 11, high=vocabulary, seed=1)
    labels = make_ids(8, 11, high=vocabulary, seed=2)
    loss = F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten()).item()
    assert abs(loss - math.log(vocabulary)) < 0.15


def test_tied_weights_are_one_parameter_that_learns_from_three_places():
    tied, free = build(tie_weights=True), build(tie_weights=False)
    assert tied.output.weight is tied.source_embedding.tokens.weight is tied.target_embedding.tokens.weight
    assert free.output.weight is not free.target_embedding.tokens.weight
    saved = V * 12 * 2
    assert sum(p.numel() for p in free.parameters()) - sum(p.numel() for p in tied.parameters()) == saved
    tied(SOURCE, torch.full_like(TARGET, 3)).sum().backward()
    gradient = tied.output.weight.grad
    used = torch.zeros(V, dtype=torch.bool)
    used[SOURCE.unique()] = True
    assert (gradient != 0).any(-1).all()  # the output layer reaches every row
    assert gradient[used].norm(dim=-1).min() > 0


def test_embeddings_are_multiplied_by_the_root_of_the_width():
    model = build()
    assert model.source_embedding.scale == model.target_embedding.scale == 12**0.5
    assert build(scale_embeddings=False).source_embedding.scale == 1.0


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_it_equals_torch_with_its_extra_final_norms(norm):
    model = build(norm, final_norm=True)
    reference = to_torch_transformer(model.encoder, model.decoder)
    assert isinstance(
        nn.Transformer(12, 3, 1, 1).encoder.norm, nn.LayerNorm
    )  # although its layers are post-norm
    source = SOURCE.clone()
    source[1, 4:] = 0
    hidden = reference(
        model.source_embedding(source),
        model.target_embedding(TARGET),
        tgt_mask=~causal_mask(5),
        src_key_padding_mask=source == 0,
        memory_key_padding_mask=source == 0,
    )
    close(model.output(hidden), model(source, TARGET))


def count(config):
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


def test_the_parameter_counts_of_the_paper_come_out():
    """Table 3 counts every parameter once: 44.0 M (base) in the layers, and one tied matrix of V x 512.

    With the 37,000 entries of §5.1 that is 63.1 M and 214.3 M, within 3 % of
    the paper's 65 M and 213 M. The table's other rows agree with one another
    for about 40,900 entries, which no text mentions.
    """
    assert count(TransformerConfig.base(37_000)) == pytest.approx(65e6, rel=0.03)
    assert count(TransformerConfig.big(37_000)) == pytest.approx(213e6, rel=0.01)
    vocabulary = 40_900
    rows = {65: {}, 36: {"layers": 2}, 50: {"layers": 4}, 80: {"layers": 8}, 28: {"width": 256}}
    rows |= {168: {"width": 1024}, 53: {"hidden": 1024}, 90: {"hidden": 4096}}
    for millions, changed in rows.items():
        layer = LayerConfig(changed.get("width", 512), 8, changed.get("hidden", 2048))
        layers = changed.get("layers", 6)
        total = count(TransformerConfig(vocabulary, vocabulary, layer, layers, layers))
        assert total == pytest.approx(millions * 1e6, abs=0.6e6), millions


def test_a_source_of_nothing_but_padding_stays_finite():
    model = build()
    source = SOURCE.clone()
    source[1] = 0
    output = model(source, TARGET)
    assert output.isfinite().all()
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    close(output[:1], model(SOURCE[:1], TARGET[:1]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_finite(dtype):
    output = build().to(dtype)(SOURCE, TARGET)
    assert output.dtype == dtype and output.isfinite().all()


def test_dropout_acts_only_in_training():
    model = build(dropout=0.5)
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


def test_empty_targets_and_int32_ids_are_fine():
    model = build()
    assert model(SOURCE, TARGET[:, :0]).shape == (2, 0, V)
    close(model(SOURCE.int(), TARGET.int()), model(SOURCE, TARGET), 0)


LEARNED = build(positions="learned", max_length=6)


@error_table(
    [
        ("vocabularies", lambda: TransformerConfig(20, 21), ("one vocabulary", "20 and 21")),
        ("padding id", lambda: config(padding_id=20), ("0 and 19", "20")),
        ("positions", lambda: config(positions="rotary"), ("'learned'", "'rotary'")),
        ("source id", lambda: LEARNED(SOURCE[:, :3] + 20, TARGET), ("source", "0 and 19")),
        ("target id", lambda: LEARNED(SOURCE[:, :3], TARGET + 20), ("target", "0 and 19")),
        ("float ids", lambda: LEARNED(SOURCE.float(), TARGET), ("source", "float32")),
        ("one sentence", lambda: LEARNED(SOURCE[0], TARGET), ("source", "(B, T)", "(7,)")),
        ("batches", lambda: LEARNED(SOURCE[:1, :3], TARGET), ("same batch size", "2 and 1")),
        ("source too long", lambda: LEARNED(SOURCE, TARGET), ("max_length=6", "0 to 6")),
        ("target too long", lambda: LEARNED(SOURCE[:, :3], SOURCE), ("max_length=6", "0 to 6")),
        ("device", lambda: LEARNED(SOURCE.to("meta"), TARGET), ("source", "cpu", "meta")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
