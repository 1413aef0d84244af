import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make_ids, seeded, set_off

from tutorial_lib.recurrent import ATTENTIONS, RecurrentConfig, RecurrentEncoder, RecurrentTranslator

V = 20
EACH = pytest.mark.parametrize("attention", ATTENTIONS)


def build(attention="additive", **changes):
    config = RecurrentConfig(V, V, 6, 8, attention, **changes)
    return set_off(seeded(RecurrentTranslator, config).double())


SOURCE, TARGET = make_ids(2, 7), make_ids(2, 5, seed=1)


def test_the_encoder_reads_each_sentence_to_its_own_end_in_both_directions():
    encoder = seeded(RecurrentEncoder, RecurrentConfig(V, V, 6, 8)).double()
    source = SOURCE.clone()
    source[1, 4:] = 0
    states, summary, real = encoder(source)
    alone, last = encoder.gru(encoder.embedding(source[1:, :4]))
    close(states[1, :4], alone[0])
    close(summary[1], last[:, 0].flatten())
    assert (states[1, 4:] == 0).all() and real.sum(1).tolist() == [7, 4]


def by_hand(model, source, target):
    """The three decoders of the papers, one sentence and one step at a time."""
    states, summary, _ = model.encoder(source[None])
    states, kind = states[0], model.config.attention
    hidden = torch.tanh(model.bridge(summary[0]))
    context = torch.zeros_like(hidden) if kind == "multiplicative" else summary[0]

    def look(hidden):
        score = model.score
        if kind == "additive":
            energies = [
                torch.tanh(hidden @ score.weight_query + h @ score.weight_key) @ score.weight_score
                for h in states
            ]
        else:
            energies = [hidden @ score.weight @ h for h in states]
        weights = torch.softmax(torch.stack(energies), 0)
        return sum(w * h for w, h in zip(weights, states, strict=True))

    logits = []
    for token in target:
        if kind == "additive":
            context = look(hidden)  # c_i from s_{i-1}
        hidden = model.cell(torch.cat([model.embedding.weight[token], context])[None], hidden[None])[0]
        if kind == "multiplicative":
            context = look(hidden)  # c_t from h_t
        logits.append(model.output(torch.tanh(model.combine(torch.cat([hidden, context])))))
    return torch.stack(logits)


@EACH
def test_each_kind_is_the_formula_of_its_paper(attention):
    model = build(attention)
    output = model(SOURCE, TARGET)
    for row in range(2):
        close(output[row], by_hand(model, SOURCE[row], TARGET[row]))


@EACH
@pytest.mark.parametrize("training", [True, False])
def test_future_target_tokens_do_not_change_the_past(attention, training):
    model = build(attention).train(training)
    base = model(SOURCE, TARGET)
    for t in range(1, 5):
        other = TARGET.clone()
        other[:, t] = (other[:, t] + 1) % V
        changed = model(SOURCE, other)
        assert torch.equal(changed[:, :t], base[:, :t])
        assert not torch.equal(changed[:, t:], base[:, t:])


@EACH
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=3), extra=st.integers(0, 3))
def test_padding_changes_nothing(attention, lengths, extra):
    model = build(attention)
    sources = [make_ids(n, seed=i) for i, n in enumerate(lengths)]
    batch = torch.stack([F.pad(s, (0, max(lengths) - len(s) + extra)) for s in sources])
    target = make_ids(len(lengths), 3, seed=9)
    output = model(batch, target)
    for row, source in enumerate(sources):
        close(output[row], model(source[None], target[row : row + 1])[0])


@EACH
def test_padding_changes_nothing_in_float32(attention):
    model = build(attention).float()
    base = model(SOURCE, TARGET)
    padded = model(F.pad(SOURCE, (0, 4)), F.pad(TARGET, (0, 2)))[:, :5]
    close(padded, base, 1e-5 * base.abs().max().item())


@EACH
@pytest.mark.parametrize("chunks", [[1] * 5, [5], [1, 4], [2, 3]])
def test_decoding_step_by_step_gives_the_same_numbers(attention, chunks):
    model = build(attention)
    state = model.start(SOURCE)
    stepped = torch.cat([model.step(part, state) for part in TARGET.split(chunks, dim=1)], 1)
    close(stepped, model(SOURCE, TARGET))


@EACH
def test_the_state_holds_the_weights_of_the_last_step(attention):
    model = build(attention)
    source = SOURCE.clone()
    source[1, 4:] = 0
    state = model.start(source)
    model.step(TARGET, state)
    if attention == "none":
        assert state.weights is None
        return
    assert state.weights.shape == (2, 5, 7)
    close(state.weights.sum(-1), torch.ones(2, 5).double())
    assert (state.weights[1, :, 4:] == 0).all()


@EACH
def test_a_state_can_reorder_and_repeat_its_rows(attention):
    model, rows = build(attention), torch.tensor([1, 1, 0])
    source = SOURCE.clone()
    source[1, 4:] = 0
    state = model.start(source)
    model.step(TARGET[:, :3], state)
    state.select(rows)
    close(model.step(TARGET[rows, 3:], state), model(source[rows], TARGET[rows])[:, 3:])


@EACH
def test_a_source_of_nothing_but_padding_stays_finite(attention):
    model = build(attention)
    source = SOURCE.clone()
    source[1] = 0
    output = model(source, TARGET)
    assert output.isfinite().all()
    output.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    close(output[:1], model(SOURCE[:1], TARGET[:1]))


@EACH
def test_every_parameter_learns_and_dropout_acts_only_in_training(attention):
    model = build(attention, dropout=0.5)
    model(SOURCE, TARGET).sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))


@EACH
def test_bfloat16_is_finite_and_an_empty_target_is_fine(attention):
    model = build(attention)
    assert model(SOURCE, TARGET[:, :0]).shape == (2, 0, V)
    output = model.bfloat16()(SOURCE, TARGET)
    assert output.dtype == torch.bfloat16 and output.isfinite().all()


@EACH
def test_the_first_loss_is_the_logarithm_of_the_vocabulary(attention):
    model = seeded(RecurrentTranslator, RecurrentConfig(1000, 1000, 32, 64, attention))
    source, target, labels = (make_ids(8, 9, high=1000, seed=s) for s in range(3))
    loss = F.cross_entropy(model(source, target).flatten(0, 1), labels.flatten()).item()
    assert abs(loss - math.log(1000)) < 0.15


MODEL = build()


@error_table(
    [
        ("attention", lambda: RecurrentConfig(V, V, attention="luong"), ("'multiplicative'", "'luong'")),
        ("odd width", lambda: RecurrentConfig(V, V, width=7), ("even", "7")),
        ("width 0", lambda: RecurrentConfig(V, V, width=0), ("width", "0")),
        ("dropout", lambda: RecurrentConfig(V, V, dropout=2.0), ("[0, 1)", "2.0")),
        ("padding id", lambda: RecurrentConfig(V, 9, padding_id=9), ("0 and 8", "9")),
        ("padding first", lambda: MODEL(F.pad(SOURCE, (1, 0)), TARGET), ("after the last token", "before")),
        ("empty source", lambda: MODEL(SOURCE[:, :0], TARGET), ("one row and position", "(2, 0)")),
        ("no source", lambda: MODEL(SOURCE[:0], TARGET[:0]), ("one row and position", "(0, ")),
        ("source id", lambda: MODEL(SOURCE + 20, TARGET), ("source", "0 and 19")),
        ("target id", lambda: MODEL(SOURCE, TARGET - 20), ("target", "0 and 19")),
        ("float ids", lambda: MODEL(SOURCE.float(), TARGET), ("source", "float32")),
        ("batches", lambda: MODEL(SOURCE[:1], TARGET), ("same batch size", "2 and 1")),
        ("device", lambda: MODEL(SOURCE.to("meta"), TARGET), ("source", "cpu", "meta")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
