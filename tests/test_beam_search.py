import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import assert_raises, close, error_table, make_ids
from test_pretrained import gpt2, llama, marian
from toys import (
    BUILD,
    NAMES_AND_SIDES,
    Table,
    batched,
    decoder_only,
    every_text,
    inputs,
    lively_reference,
    transformer,
)

from tutorial_lib import beam_search as module
from tutorial_lib.beam_search import beam_search, length_penalty
from tutorial_lib.generation import greedy
from tutorial_lib.pretrained import gpt2_from_hugging_face, llama_from_hugging_face, marian_from_hugging_face

EACH = pytest.mark.parametrize("name", BUILD)
ALPHAS = [-1.0, 0.0, 0.6, 1.0, 3.0]
START = torch.tensor([[1]])


def wu(length, alpha):
    return (5 + length) ** alpha / (5 + 1) ** alpha


def texts(found, row=0):
    """The hypotheses of a row as tuples, and their scores; what is missing is left out."""
    lengths = found.lengths[row].tolist()
    ids = [tuple(one[:length]) for one, length in zip(found.ids[row].tolist(), lengths, strict=True)]
    return [text for text in ids if text], [
        score for score in found.scores[row].tolist() if score > -math.inf
    ]


def naive(model, prompt, *, beams, max_new_tokens, eos_ids, best, alpha):
    """Beam search in lists, which never stops before the last step. (With one beam: at its first ending.)"""
    live, finished = [(0.0, ())], []
    for length in range(1, max_new_tokens + 1):
        candidates = sorted(
            (
                (log_prob + math.log(chance), (*text, one))
                for log_prob, text in live
                for one, chance in enumerate(model.probabilities([*prompt, *text]))
                if chance > 0
            ),
            reverse=True,
        )

        def ends(candidate, length=length):
            return candidate[1][-1] in eos_ids or length == max_new_tokens

        finished += [
            (log_prob / wu(length, alpha), text) for log_prob, text in filter(ends, candidates[:beams])
        ]
        if beams == 1 and finished:
            break
        live = [candidate for candidate in candidates if not ends(candidate)][:beams]
    finished.sort(reverse=True)
    return [text for _, text in finished[:best]], [score for score, _ in finished[:best]]


def same(ours, expected):
    assert ours[0] == expected[0]
    assert ours[1] == pytest.approx(expected[1], abs=1e-9)


# The definition


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("eos", [None, 3, (2, 3)])
@pytest.mark.parametrize("padding_id", [None, 0])
def test_a_beam_as_wide_as_the_space_finds_the_best_of_all_texts(alpha, eos, padding_id):
    model = Table(4, padding_id=padding_id)
    eos_ids = {None: set(), 3: {3}, (2, 3): {2, 3}}[eos]
    all_texts = every_text(model, [1], eos_ids=eos_ids, max_new_tokens=4)
    scored = sorted(((p / wu(len(text), alpha), text) for text, p in all_texts.items()), reverse=True)
    found = beam_search(model, START, beams=4**4, max_new_tokens=4, eos_id=eos, best=len(scored), alpha=alpha)
    same(texts(found), ([text for _, text in scored], [score for score, _ in scored]))


@given(
    beams=st.integers(1, 5),
    alpha=st.sampled_from(ALPHAS),
    scale=st.sampled_from([0.3, 1.0, 3.0]),
    number=st.integers(0, 50),
    data=st.data(),
)
def test_it_is_the_definition_and_stopping_early_changes_nothing(beams, alpha, scale, number, data):
    best = data.draw(st.integers(1, beams))
    eos = data.draw(st.sampled_from([None, 4, (3, 4)]))
    length = data.draw(st.integers(1, 9))
    eos_ids = () if eos is None else (eos,) if eos == 4 else eos
    model = Table(5, padding_id=0, scale=scale, seed=number)
    settings = {"beams": beams, "max_new_tokens": length, "best": best, "alpha": alpha}
    found = beam_search(model, torch.tensor([[1], [3], [2]]), eos_id=eos, **settings)
    for row, first in enumerate([1, 3, 2]):
        same(texts(found, row), naive(model, [first], eos_ids=eos_ids, **settings))


def never_stopping(monkeypatch, *arguments, **settings):
    with monkeypatch.context() as patched:
        patched.setattr(module._Search, "is_over", lambda self, penalty: False)
        return beam_search(*arguments, **settings)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_it_stops_as_soon_as_nothing_can_win_and_not_before(alpha, monkeypatch):
    """What is left out must not matter, and at the last step something could still have won."""
    steps = []
    for number in range(40):
        model = Table(5, scale=2.0, seed=number, max_length=31)
        settings = {"beams": 3, "max_new_tokens": 30, "eos_id": 4, "best": 2, "alpha": alpha}
        found = beam_search(model, START, **settings)
        steps.append(len(model.steps))
        whole = never_stopping(monkeypatch, model, START, **settings)
        same(texts(found), texts(whole))
    assert alpha > 1 or min(steps) < 12  # with a large alpha everything can still win until the end


def chain(*chances, eos=3):
    """A model of four tokens whose next one does not depend on the last: one row of chances for each place."""
    model = Table(4)
    with torch.no_grad():
        for place, row in enumerate(chances):
            model.table[place] = torch.tensor(row, dtype=torch.float64).log() - (
                torch.tensor(chances[place - 1], dtype=torch.float64).log() if place else 0.0
            )
    return model


def test_a_long_text_wins_late_where_the_penalty_allows_it():
    """After its first step the finished text is ahead; only its rival's length brings the rival back."""
    sure = [0.98, 0.01, 0.005, 0.005]
    model = chain([0.4, 0.05, 0.05, 0.5], *[sure] * 8)
    without = beam_search(model, START, beams=2, max_new_tokens=9, eos_id=3, alpha=0.0)
    assert texts(without)[0] == [(3,)] and len(model.steps) == 1  # 0.5 > 0.4: nothing can win any more
    with_penalty = beam_search(model, START, beams=2, max_new_tokens=9, eos_id=3, alpha=1.0)
    assert texts(with_penalty)[0] == [(0,) * 9]
    short = beam_search(model, START, beams=2, max_new_tokens=2, eos_id=3, alpha=1.0)
    assert texts(short)[0] == [(3,)]  # within two tokens it cannot
    negative = beam_search(model, START, beams=2, max_new_tokens=9, eos_id=3, alpha=-1.0)
    assert texts(negative)[0] == [(3,)]


def test_two_beams_find_what_greedy_decoding_walks_past():
    """A first (0.6), then x (0.4), y and z (0.3 each): 0.24. B first (0.4), then x (0.9): 0.36."""
    model = Table(6)
    a, b, x = 2, 3, 4
    log = torch.log
    with torch.no_grad():
        model.table[0, 1] = log(torch.tensor([1e-9, 1e-9, 0.6, 0.4, 1e-9, 1e-9]).double())
        model.table[1, a] = log(torch.tensor([0.3, 0.3, 1e-9, 1e-9, 0.4, 1e-9]).double()) - model.table[0, 1]
        model.table[1, b] = log(torch.tensor([0.1, 1e-9, 1e-9, 1e-9, 0.9, 1e-9]).double()) - model.table[0, 1]
    assert greedy(model, START, max_new_tokens=2).tolist() == [[a, x]]
    found = beam_search(model, START, beams=2, max_new_tokens=2, best=2, alpha=0.0)
    assert found.ids.tolist() == [[[b, x], [a, x]]]
    close(found.scores.exp(), torch.tensor([[0.36, 0.24]]).double(), 1e-6)


def test_the_length_penalty_is_the_one_of_the_paper():
    assert length_penalty(1, 0.6) == 1.0  # (5 + 1) / (5 + 1)
    for length in (2, 7, 30):
        assert length_penalty(length, 0.6) == pytest.approx(wu(length, 0.6))
        assert length_penalty(length, 0.0) == 1.0
        assert length_penalty(length, 0.8, offset=0.0) == pytest.approx(length**0.8)


@pytest.mark.parametrize("eos", [None, 3, (0, 2)])
@pytest.mark.parametrize("scale", [0.0, 1e-9])
def test_one_beam_is_greedy_where_tokens_are_equally_likely(scale, eos):
    """In scores, or in log-probabilities, which round a small difference away."""
    model = Table(50)
    with torch.no_grad():
        model.table.copy_(scale * torch.arange(50.0))
    found = beam_search(model, START, beams=1, max_new_tokens=8, eos_id=eos)
    assert torch.equal(found.ids[:, 0], greedy(model, START, max_new_tokens=8, eos_id=eos))


# With the library's models


@EACH
@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_one_beam_is_greedy(name, alpha):
    model, batch = BUILD[name](), batched(inputs(name))
    free = greedy(model, *batch, max_new_tokens=8)
    for eos in (None, int(free[0, 2]), int(free[1, 4])):
        found = beam_search(model, *batch, beams=1, max_new_tokens=8, eos_id=eos, alpha=alpha)
        assert torch.equal(found.ids[:, 0], greedy(model, *batch, max_new_tokens=8, eos_id=eos))


@pytest.mark.parametrize("name, side", NAMES_AND_SIDES)
def test_every_row_finds_what_it_finds_alone(name, side):
    model, parts = BUILD[name](), inputs(name)
    eos = int(greedy(model, *parts[0], max_new_tokens=3)[0, -1])
    settings = {"beams": 4, "max_new_tokens": 8, "eos_id": eos, "best": 3}
    found = beam_search(model, *batched(parts, side), **settings)
    for row, part in enumerate(parts):
        same(texts(found, row), texts(beam_search(model, *part, **settings)))
        padding = torch.arange(found.ids.size(2)) >= found.lengths[row][:, None]
        assert torch.equal(found.ids[row] == 0, padding)


@EACH
def test_the_scores_are_those_of_reading_the_whole_text(name):
    model, part = BUILD[name](), inputs(name)[0]
    found = beam_search(model, *part, beams=3, max_new_tokens=6, best=3, alpha=0.8)
    for text, score in zip(*texts(found), strict=True):
        whole = torch.cat([part[0], torch.tensor([text])], 1)
        logits = model(*part[1:], whole[:, :-1])[0, -len(text) :].detach()
        logits[:, 0] = -math.inf
        log_prob = torch.log_softmax(logits, -1).gather(1, torch.tensor(text)[:, None]).sum().item()
        assert score == pytest.approx(log_prob / wu(len(text), 0.8), abs=1e-9)
    assert found.scores[0].tolist() == sorted(found.scores[0].tolist(), reverse=True)
    assert len(set(texts(found)[0])) == 3


@EACH
def test_the_mode_stays_and_half_precision_is_fine(name):
    model, batch = BUILD[name]().bfloat16().train(), batched(inputs(name))
    found = beam_search(model, *batch, beams=3, max_new_tokens=5, best=2)
    assert model.training and found.scores.dtype == torch.float32 and found.scores.isfinite().all()


def test_a_model_without_a_padding_id_takes_a_mask():
    model, parts = decoder_only(padding_id=None), inputs("decoder-only")
    (prompt,) = batched(parts, "right")
    found = beam_search(model, prompt, real=prompt != 0, beams=3, max_new_tokens=5)
    for row, part in enumerate(parts):
        same(texts(found, row), texts(beam_search(model, *part, beams=3, max_new_tokens=5)))


def test_a_row_that_is_done_takes_no_equal_text_that_comes_later():
    """Alone it would have stopped; beside a longer row it must find the same."""
    model, eos, impossible = Table(6), 0, -1e4
    with torch.no_grad():
        model.table.fill_(impossible)
        model.table[:, 1, [eos, 2]] = 0.0  # after 1 as likely the end as 2, after which it surely ends
        model.table[:, 2, eos] = -impossible
        model.table[:, 3, 4] = model.table[:, 4, 5] = model.table[:, 5, 5] = 0.0  # goes on for ever
    options = {"beams": 3, "max_new_tokens": 6, "eos_id": eos, "alpha": 0.0}
    alone = beam_search(model, torch.tensor([[1]]), **options)
    beside = beam_search(model, torch.tensor([[1], [3]]), **options)
    assert texts(beside) == texts(alone) == ([(eos,)], [pytest.approx(math.log(0.5))])


def test_where_there_are_fewer_texts_the_rest_is_empty():
    found = beam_search(Table(4, padding_id=0), START, beams=6, max_new_tokens=1, best=5)
    assert found.lengths.tolist() == [[1, 1, 1, 0, 0]]
    assert (found.scores[0, 3:] == -math.inf).all() and found.scores[0, :3].isfinite().all()
    assert (found.ids[0, 3:] == 0).all()


def test_the_prompt_is_read_once_for_all_beams():
    model = Table(5)
    beam_search(model, torch.tensor([[1, 2], [3, 4]]), beams=3, max_new_tokens=3)
    assert [tuple(ids.shape) for ids in model.steps] == [(2, 2), (6, 1), (6, 1)]


# Against Hugging Face, with the same weights


@pytest.mark.parametrize("build, convert", [(gpt2, gpt2_from_hugging_face), (llama, llama_from_hugging_face)])
@pytest.mark.parametrize("alpha", [-0.5, 0.0, 1.0])
def test_a_language_model_of_hugging_face_finds_the_same(build, convert, alpha):
    reference = lively_reference(build())
    prompts = [make_ids(n, low=3, high=60, seed=n) for n in (6, 3, 5)]
    (prompt,) = batched([(p[None],) for p in prompts], "left")
    real, ours = prompt != 0, convert(reference)
    eos = int(greedy(ours, prompt, real=real, max_new_tokens=4)[0, -1])
    expected = reference.generate(
        prompt, attention_mask=real.long(), num_beams=4, num_return_sequences=3, do_sample=False,
        max_new_tokens=10, eos_token_id=eos, pad_token_id=eos, length_penalty=alpha, early_stopping="never",
        return_dict_in_generate=True, output_scores=True,
    )  # fmt: skip
    found = beam_search(
        ours, prompt, real=real, beams=4, best=3, max_new_tokens=10, eos_id=eos, alpha=alpha, offset=0.0
    )
    theirs = expected.sequences[:, 6:].view(3, 3, -1)
    assert torch.equal(found.ids, theirs[:, :, : found.ids.size(2)])
    close(found.scores.flatten(), expected.sequences_scores, 1e-4)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_translation_model_of_hugging_face_finds_the_same(alpha):
    reference = lively_reference(marian(forced_eos_token_id=None))
    source = make_ids(3, 9, low=1, high=59)
    source[1, 6:], source[2, 3:] = 59, 59
    ours, start = marian_from_hugging_face(reference), torch.full((3, 1), 59)
    eos = int(greedy(ours, start, source, max_new_tokens=4)[1, -1])
    expected = reference.generate(
        source, attention_mask=(source != 59).long(), num_beams=4, num_return_sequences=2, do_sample=False,
        max_new_tokens=10, eos_token_id=eos, bad_words_ids=[[59]], length_penalty=alpha,
        early_stopping="never", return_dict_in_generate=True, output_scores=True, renormalize_logits=True,
    )  # fmt: skip
    found = beam_search(
        ours, start, source, beams=4, best=2, max_new_tokens=10, eos_id=eos, alpha=alpha, offset=0.0
    )
    theirs = expected.sequences[:, 1:].view(3, 2, -1)
    assert torch.equal(found.ids, theirs[:, :, : found.ids.size(2)])
    close(found.scores.flatten(), expected.sequences_scores, 1e-4)


MODEL, PROMPT = decoder_only(), make_ids(2, 4)


def go(**changes):
    return lambda: beam_search(MODEL, PROMPT, **{"beams": 2, "max_new_tokens": 3, **changes})


@error_table(
    [
        ("no beam", go(beams=0), ("beams", "at least 1", "0")),
        ("half a beam", go(beams=2.0), ("beams", "integer", "2.0")),
        ("no best", go(best=0), ("best", "at least 1", "0")),
        ("more best than beams", go(best=3), ("number of beams", "3 and 2")),
        ("alpha", go(alpha=math.nan), ("alpha must be finite", "nan")),
        ("alpha: a word", go(alpha="1"), ("alpha must be finite", "1")),
        ("huge alpha", go(alpha=1e4), ("finite penalty above 0 for 3 tokens", "10000.0", "inf")),
        ("tiny alpha", go(alpha=-1e5), ("finite penalty above 0 for 3 tokens", "gives 0.0")),
        ("no length", lambda: length_penalty(0, -1.0, 0.0), ("length", "at least 1", "0")),
        ("offset", go(offset=-1.0), ("offset", "at least 0", "-1.0")),
        ("no tokens", go(max_new_tokens=0), ("max_new_tokens", "at least 1", "0")),
        ("too long", go(max_new_tokens=14), ("at most 16", "max_new_tokens=14")),
        ("eos id", go(eos_id=20), ("eos_id", "0 and 19", "20")),
        (
            "no source",
            lambda: beam_search(transformer(), PROMPT, beams=2, max_new_tokens=3),
            ("needs a source", "got none"),
        ),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)
