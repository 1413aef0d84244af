import math
from collections import Counter

import pytest
import torch
from support import assert_raises, close, error_table, make_ids
from test_pretrained import gpt2, llama, marian
from toys import (
    BUILD,
    NAMES_AND_SIDES,
    Table,
    batched,
    decoder_only,
    every_text,
    greedy_uncached,
    inputs,
    lively_reference,
    recurrent,
    transformer,
    uncached,
)

from tutorial_lib.generation import greedy, sample
from tutorial_lib.pretrained import gpt2_from_hugging_face, llama_from_hugging_face, marian_from_hugging_face
from tutorial_lib.sampling import next_token_probabilities

EACH = pytest.mark.parametrize("name", BUILD)
SIDES = pytest.mark.parametrize("side", ["left", "right"])
N = 8


def seed(number=0):
    return torch.Generator().manual_seed(number)


# Greedy


@pytest.mark.parametrize("name, side", NAMES_AND_SIDES)
def test_every_row_is_what_reading_the_whole_text_again_gives_it_alone(name, side):
    model, parts = BUILD[name](), inputs(name)
    ours = greedy(model, *batched(parts, side), max_new_tokens=N)
    assert ours.tolist() == [greedy_uncached(model, *part, max_new_tokens=N) for part in parts]


@pytest.mark.parametrize(
    "positions", ["learned", "sinusoidal", "rotary_halves", "alibi", "t5", "shaw", "none"]
)
@SIDES
def test_padded_prompts_are_right_for_every_kind_of_position(positions, side):
    model, parts = decoder_only(positions), inputs("decoder-only")
    (prompt,) = batched(parts, side, gap=2)  # in two columns every row is padded
    ours = greedy(model, prompt, max_new_tokens=N)
    assert ours.tolist() == [greedy_uncached(model, *part, max_new_tokens=N) for part in parts]


def test_padding_on_both_sides_and_between_tokens_is_right_too():
    model = decoder_only()
    prompt = torch.tensor([[0, 5, 0, 7, 0], [3, 4, 5, 6, 7]])
    ours = greedy(model, prompt, max_new_tokens=N)
    alone = [greedy_uncached(model, p, max_new_tokens=N) for p in (torch.tensor([[5, 7]]), prompt[1:])]
    assert ours.tolist() == alone


@SIDES
def test_a_model_without_a_padding_id_takes_a_mask(side):
    model, parts = decoder_only(padding_id=None), inputs("decoder-only")
    (prompt,) = batched(parts, side)
    (real,) = batched([(torch.ones_like(part),) for (part,) in parts], side)
    ours = greedy(model, prompt, real=real.bool(), max_new_tokens=N)
    for row, (part,) in enumerate(parts):
        assert torch.equal(ours[row : row + 1], greedy(model, part, max_new_tokens=N))
    assert 0 in sample(model, prompt, real=real.bool(), max_new_tokens=11, temperature=9.0, generator=seed())


def test_the_mask_wins_over_the_padding_id():
    """As in Hugging Face's models whose padding id is also the id that begins a text."""
    model, without = decoder_only(), decoder_only(padding_id=None)
    prompt = torch.tensor([[0, 5, 0, 7], [0, 0, 5, 0]])
    real = torch.tensor([[True] * 4, [False] + [True] * 3])
    ours = greedy(model, prompt, real=real, max_new_tokens=3)
    for row, text in enumerate([[0, 5, 0, 7], [0, 5, 0]]):
        scores = without(torch.tensor([text]))[0, -1].detach()
        assert ours[row, 0] == scores[1:].argmax() + 1


def eos_of(model, parts):
    """An id that ends one of the rows in the middle and another one later or never."""
    alone = [greedy_uncached(model, *part, max_new_tokens=N) for part in parts]
    firsts = {one: [row.index(one) if one in row else N for row in alone] for row in alone for one in row}
    return next(one for one, places in firsts.items() if min(places) < N - 1 and len(set(places)) > 1)


@EACH
def test_each_row_ends_by_itself_and_then_there_is_padding(name):
    model, parts = BUILD[name](), inputs(name)
    eos = eos_of(model, parts)
    ours = greedy(model, *batched(parts), max_new_tokens=N, eos_id=eos)
    alone = [greedy_uncached(model, *part, max_new_tokens=N, eos_id=eos) for part in parts]
    longest = max(map(len, alone))
    assert ours.tolist() == [row + [0] * (longest - len(row)) for row in alone]
    assert len({len(row) for row in alone}) > 1
    several = greedy(model, *batched(parts), max_new_tokens=N, eos_id=(eos, int(ours[0, 0])))
    assert several[0].tolist() == [ours[0, 0], *[0] * (several.size(1) - 1)]


def test_it_stops_when_all_rows_have_ended_and_reads_no_token_in_vain():
    model = Table(6, max_length=40)
    free = greedy(model, torch.tensor([[1], [2]]), max_new_tokens=30)
    assert free.shape == (2, 30) and len(model.steps) == 30  # the prompt and 29 tokens
    eos = free[:, :12].flatten().unique().tolist()
    model.steps.clear()
    ours = greedy(model, torch.tensor([[1], [2]]), max_new_tokens=30, eos_id=eos)
    assert ours.shape == (2, 1) and len(model.steps) == 1


def test_without_a_padding_id_the_eos_id_fills_up():
    model = Table(6, max_length=40)
    prompt = make_ids(4, 1, low=0, high=6)
    free = greedy(model, prompt, max_new_tokens=20)
    eos = int(free[0, 3])
    ours = greedy(model, prompt, max_new_tokens=20, eos_id=eos)
    for row, whole in zip(ours.tolist(), free.tolist(), strict=True):
        end = whole.index(eos) + 1 if eos in whole else 20
        assert row == whole[:end] + [eos] * (len(row) - end)


def test_the_padding_id_is_never_generated_unless_it_ends_the_text():
    model = Table(5, padding_id=2, max_length=40)
    with torch.no_grad():
        model.table[..., 2] += 100.0
    prompt = torch.tensor([[1], [3]])
    assert 2 not in greedy(model, prompt, max_new_tokens=20)
    assert 2 not in sample(model, prompt, max_new_tokens=20, temperature=50.0, generator=seed())
    assert greedy(model, prompt, max_new_tokens=20, eos_id=2).tolist() == [[2], [2]]


def test_of_equally_likely_tokens_greedy_takes_the_first():
    model = Table(5)
    with torch.no_grad():
        model.table[:] = torch.tensor([0.0, 1.0, 0.5, 1.0, 1.0])
    assert greedy(model, torch.tensor([[3]]), max_new_tokens=4).tolist() == [[1, 1, 1, 1]]


def test_the_longest_text_a_model_can_read_is_reached():
    model = decoder_only("learned")  # reads 16
    prompt = make_ids(1, 10)
    assert greedy(model, prompt, max_new_tokens=7).shape == (1, 7)
    assert greedy(model, torch.cat([torch.zeros(1, 9).long(), prompt], 1), max_new_tokens=7).shape == (1, 7)
    translator = transformer(positions="learned", max_length=6)
    assert greedy(translator, torch.tensor([[1]]), make_ids(1, 5), max_new_tokens=6).shape == (1, 6)
    assert recurrent().max_length is None and transformer().max_length is None


@EACH
def test_it_leaves_the_model_and_its_modes_alone(name):
    model = BUILD[name]()
    for dropout in [m for m in model.modules() if isinstance(m, torch.nn.Dropout)]:
        dropout.p = 0.5
    batch = batched(inputs(name))
    evaluated = greedy(model.eval(), *batch, max_new_tokens=N)
    model.train()
    frozen = next(m for m in model.modules() if isinstance(m, torch.nn.Embedding)).eval()
    modes = [m.training for m in model.modules()]
    weights = [p.detach().clone() for p in model.parameters()]
    assert torch.equal(greedy(model, *batch, max_new_tokens=N), evaluated)
    assert [m.training for m in model.modules()] == modes and not frozen.training
    with pytest.raises(ValueError):
        greedy(model, batch[0] + 20, *batch[1:], max_new_tokens=N)
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(a, b) for a, b in zip(weights, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())


@EACH
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_generates(name, dtype):
    model, batch = BUILD[name]().to(dtype), batched(inputs(name))
    assert greedy(model, *batch, max_new_tokens=4).shape == (3, 4)
    ours = sample(model, *batch, max_new_tokens=4, temperature=0.1, top_k=9, top_p=0.9, generator=seed())
    assert ours.shape == (3, 4) and (ours > 0).all()


def test_int32_prompts_and_prompts_on_their_own_memory_are_fine():
    model, (prompt,) = decoder_only(), batched(inputs("decoder-only"))
    base = greedy(model, prompt, max_new_tokens=N)
    assert torch.equal(greedy(model, prompt.int(), max_new_tokens=N), base)
    assert torch.equal(greedy(model, prompt.T.contiguous().T, max_new_tokens=N), base)
    assert base.dtype == torch.int64


# Against Hugging Face, with the same weights


def theirs(model, *arguments, **settings):
    settings = {"do_sample": False, "num_beams": 1, **settings}
    return model.generate(*arguments, **settings)


@pytest.mark.parametrize("build, convert", [(gpt2, gpt2_from_hugging_face), (llama, llama_from_hugging_face)])
def test_a_language_model_of_hugging_face_goes_on_with_the_same_tokens(build, convert):
    reference = lively_reference(build())
    prompts = [make_ids(n, low=3, high=60, seed=n) for n in (6, 3, 5)]
    (prompt,) = batched([(p[None],) for p in prompts], "left")
    real = prompt != 0
    free = theirs(reference, prompt, attention_mask=real.long(), max_new_tokens=12, pad_token_id=0,
                  eos_token_id=None)[:, 6:]  # fmt: skip
    ours = convert(reference)
    assert torch.equal(greedy(ours, prompt, real=real, max_new_tokens=12), free)
    eos = int(free[0, 3])
    stopped = theirs(reference, prompt, attention_mask=real.long(), max_new_tokens=12, pad_token_id=eos,
                     eos_token_id=eos)[:, 6:]  # fmt: skip
    assert torch.equal(greedy(ours, prompt, real=real, max_new_tokens=12, eos_id=eos), stopped)
    assert len(set(free.flatten().tolist())) > 6


def test_a_translation_model_of_hugging_face_gives_the_same_translation():
    reference = lively_reference(marian(forced_eos_token_id=None))
    source = make_ids(3, 9, low=1, high=59)
    source[1, 6:], source[2, 3:] = 59, 59
    settings = {"attention_mask": (source != 59).long(), "max_new_tokens": 12, "suppress_tokens": [59]}
    free = theirs(reference, source, eos_token_id=None, **settings)[:, 1:]
    ours, start = marian_from_hugging_face(reference), torch.full((3, 1), 59)
    assert torch.equal(greedy(ours, start, source, max_new_tokens=12), free)
    eos = next(one for one in free[0].tolist()[1:] if one != free[0, 0])
    stopped = theirs(reference, source, eos_token_id=eos, **{**settings, "suppress_tokens": None},
                     bad_words_ids=[[59]])[:, 1:]  # fmt: skip
    assert torch.equal(greedy(ours, start, source, max_new_tokens=12, eos_id=eos), stopped)


# Sampling


def chi_square(counts, expected):
    """How surprising the counts are, as the number of standard deviations of the chi-square distribution."""
    assert set(counts) <= {key for key, number in expected.items() if number > 0}
    cells = {key: number for key, number in expected.items() if number >= 5}
    rest = sum(expected.values()) - sum(cells.values())
    pairs = [(counts.get(key, 0), number) for key, number in cells.items()]
    if rest >= 5:
        pairs.append((sum(counts.values()) - sum(seen for seen, _ in pairs), rest))
    freedom = len(pairs) - 1
    statistic = sum((seen - number) ** 2 / number for seen, number in pairs)
    return (statistic - freedom) / math.sqrt(2 * freedom) if freedom else statistic


SETTINGS = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 2.0},
        {"top_k": 2},
        {"top_p": 0.7},
        {"top_k": 3, "top_p": 0.6},
    ],
    ids=str,
)


@SETTINGS
def test_whole_texts_come_with_their_probability(settings):
    model, rows = Table(4, padding_id=0, scale=0.7), 20_000
    texts = sample(model, torch.full((rows, 1), 2), max_new_tokens=3, eos_id=3, generator=seed(), **settings)
    counts = Counter(tuple(one for one in row if one) for row in texts.tolist())
    expected = {}
    for text in every_text(model, [2], eos_ids={3}, max_new_tokens=3):
        chance = rows
        for place, one in enumerate(text):
            scores = torch.tensor(model.probabilities([2, *text[:place]])).log()
            chance *= next_token_probabilities(scores, **settings)[one].item()
        expected[text] = chance
    assert sum(expected.values()) == pytest.approx(rows, rel=1e-4)
    assert abs(chi_square(counts, expected)) < 4


@EACH
def test_the_first_token_of_each_model_comes_with_its_probability(name):
    model, part = BUILD[name](), inputs(name, rows=1)[0]
    rows = 5_000
    drawn = sample(model, *(p.expand(rows, -1) for p in part), max_new_tokens=1, top_k=6, generator=seed())
    expected = next_token_probabilities(uncached(model, *part), top_k=6) * rows
    counts = Counter(drawn[:, 0].tolist())
    assert abs(chi_square(counts, dict(enumerate(expected.tolist())))) < 4


def test_the_measure_notices_another_distribution():
    expected = {one: 1000.0 for one in range(4)}
    assert abs(chi_square({0: 1020, 1: 970, 2: 1015, 3: 995}, expected)) < 1
    assert chi_square({0: 1100, 1: 900, 2: 1000, 3: 1000}, expected) > 4


@EACH
def test_one_candidate_or_a_temperature_near_0_is_greedy(name):
    model, batch = BUILD[name](), batched(inputs(name))
    base = greedy(model, *batch, max_new_tokens=N)
    for settings in ({"top_k": 1}, {"temperature": 1e-6}, {"top_p": 1e-6}):
        assert torch.equal(sample(model, *batch, max_new_tokens=N, **settings), base)


def test_the_generator_alone_decides():
    model, (prompt,) = decoder_only(), batched(inputs("decoder-only"))
    before = torch.get_rng_state()
    first = sample(model, prompt, max_new_tokens=N, generator=seed(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(sample(model, prompt, max_new_tokens=N, generator=seed(1)), first)
    assert not torch.equal(sample(model, prompt, max_new_tokens=N, generator=seed(2)), first)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        assert torch.equal(sample(model, prompt, max_new_tokens=N), first)


# What does not fit

MODEL, TRANSLATOR = decoder_only(), transformer()
PROMPT, START, SOURCE = make_ids(2, 4), torch.full((2, 1), 1), make_ids(2, 5)


def go(prompt=PROMPT, *source, model=MODEL, **changes):
    return lambda: greedy(model, prompt, *source, **{"max_new_tokens": 3, **changes})


def translate(prompt=START, source=SOURCE, **changes):
    return go(prompt, source, model=TRANSLATOR, **changes)


def broken():
    model = Table(5)
    with torch.no_grad():
        model.table[1] = math.nan
    return greedy(model, torch.tensor([[3]]), max_new_tokens=2)


def draw(**changes):
    return lambda: sample(MODEL, PROMPT, max_new_tokens=3, **changes)


@error_table(
    [
        ("no prompt", go(PROMPT[:, :0]), ("at least one row and one token", "(2, 0)")),
        ("no row", go(PROMPT[:0]), ("at least one row and one token", "(0, 4)")),
        ("one text", go(PROMPT[0]), ("(B, T)", "(4,)")),
        ("lists", go([[1]]), ("prompt must be a torch.Tensor", "list")),
        ("float ids", go(PROMPT.float()), ("int64 or int32", "float32")),
        ("id", go(PROMPT + 20), ("0 and 19",)),
        ("device", go(PROMPT.to("meta")), ("prompt", "cpu", "meta")),
        ("all padded", go(PROMPT * torch.tensor([[1], [0]])), ("nothing but padding", "[1]")),
        ("real: shape", go(real=PROMPT[:, :2] > 0), ("(2, 4)", "(2, 2)")),
        ("real: dtype", go(real=PROMPT), ("bool", "int64")),
        ("real: a list", go(real=[[True] * 4] * 2), ("real must be a torch.Tensor", "list")),
        ("real: nothing", go(real=PROMPT < 0), ("nothing but padding", "[0, 1]")),
        ("too long", go(max_new_tokens=14), ("at most 16", "prompt of 4", "max_new_tokens=14")),
        ("no tokens", go(max_new_tokens=0), ("max_new_tokens", "at least 1", "0")),
        ("half a token", go(max_new_tokens=2.0), ("max_new_tokens", "integer", "2.0")),
        ("eos id", go(eos_id=20), ("eos_id", "0 and 19", "20")),
        ("eos ids", go(eos_id=(3, -1)), ("eos_id", "0 and 19", "(3, -1)")),
        ("eos: a float", go(eos_id=3.0), ("eos_id", "integer", "3.0")),
        ("eos: True", go(eos_id=True), ("eos_id", "integer", "True")),
        ("eos: a word", go(eos_id="end"), ("eos_id", "integer", "'end'")),
        ("a source too many", go(PROMPT, SOURCE), ("DecoderOnly needs no source", "got one")),
        ("no source", go(START, model=TRANSLATOR), ("Transformer needs a source", "got none")),
        ("no source", go(START, model=recurrent()), ("RecurrentTranslator needs a source", "got none")),
        ("no model", go(model="gpt2"), ("a module with start and step", "str")),
        ("no steps", go(model=torch.nn.Linear(2, 2)), ("a module with start and step", "Linear")),
        ("source: a number", translate(source=torch.tensor(3)), ("source must be ids (B, S)", "()")),
        ("source: a list", translate(source=[[1]]), ("source must be a torch.Tensor", "list")),
        ("batches", translate(START[:1]), ("prompt and source", "1 and 2")),
        ("source id", translate(source=SOURCE + 20), ("source", "0 and 19")),
        ("padded start", translate(torch.tensor([[1, 2], [1, 0]])), ("without padding", "got padding")),
        ("masked start", translate(real=START > 0), ("without padding", "got padding")),
        ("broken model", broken, ("scores must be finite", "nan")),
        ("temperature", draw(temperature=0), ("temperature", "above 0", "0")),
        ("generator", draw(generator=42), ("a torch.Generator on the cpu", "got int")),
        ("top_k", draw(top_k=0), ("top_k", "at least 1", "0")),
        ("top_p", draw(top_p=0.0), ("top_p", "above 0", "0.0")),
    ]
)
def test_wrong_inputs_are_named(wrong, says):
    assert_raises(wrong, says)


def test_a_setting_is_checked_before_the_model_works():
    model = Table()
    with pytest.raises(ValueError):
        sample(model, torch.tensor([[1]]), max_new_tokens=2, temperature=-1.0)
    assert model.steps == []


@EACH
def test_the_last_token_can_be_scored_alone(name):
    model, text = BUILD[name](), make_ids(3, 4)
    source = batched(inputs(name))[1:]
    whole = model.step(text, model.start(*source))
    close(model.step(text, model.start(*source), last_only=True), whole[:, -1:])
