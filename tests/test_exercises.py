"""Each exercise holds: its solution passes, its planted wrong solutions are rejected with the right words, nothing leaks."""

import json
import re

import nbformat
import pytest
from conftest import ROOT

import tutorial_lib.teaching.checking as checking
from tutorial_lib.teaching import Wrong, collection, open_exercises
from tutorial_lib.teaching.notebooks import grader_notebook, student_notebook
from tutorial_lib.teaching.pages import page
from tutorial_lib.teaching.source import read_overlay, read_set, stub

FOLDER = ROOT / "exercises"
SETS = [source for language in ("en", "ko") for source in collection.read_all(FOLDER, language)]
CASES = [(source, exercise) for source in SETS for exercise in source.exercises]
ids = [f"{source.language}-{source.name[:2]}-{exercise.id}" for source, exercise in CASES]
cases = pytest.mark.parametrize("source,exercise", CASES, ids=ids)


def run(source, exercise, answer, tests=("test", "hidden")):
    """Run an answer through the tests as a notebook would; the key of the message, or None."""
    space = {"check": open_exercises(source.name, source.language)}
    exec(source.setup, space)
    exec(exercise.start, space)
    exec(answer, space)
    for role in tests:
        for cell in exercise.of(role):
            try:
                exec(cell.code, space)
            except Wrong as wrong:
                assert exercise.messages.get(wrong.key, checking.COMMON[source.language].get(wrong.key))
                return wrong.key, str(wrong)
    return None


@cases
def test_the_solution_passes_with_several_seeds(source, exercise, monkeypatch):
    for number in ("0", "1", "2") if exercise.cells else ():
        monkeypatch.setenv(checking.SEED_VARIABLE, number)
        assert run(source, exercise, exercise.answer) is None


@cases
def test_planted_wrong_solutions_are_rejected_with_the_message_that_names_the_mistake(source, exercise):
    planted = exercise.of("wrong")
    assert len(planted) >= 2 or exercise.kind == "discuss"
    assert len({cell.expect for cell in planted}) >= 2 or exercise.kind == "discuss"
    for cell in planted:
        rejected = run(source, exercise, cell.code)
        assert rejected is not None, f"accepted:\n{cell.code}"
        assert rejected[0] == cell.expect, f"{rejected} instead of {cell.expect} for:\n{cell.code}"
        assert sentence(exercise.messages[cell.expect], cell.expect).fullmatch(rejected[1])


BLOCKS = """
def attend_in_blocks(query, key, value, block):
    highest, total = torch.full((len(query), 1), float("-inf")), torch.zeros(len(query), 1)
    mixed = torch.zeros(len(query), value.size(1))
    for keys, values in zip(key.split(block), value.split(block)):
        scores = query @ keys.T / query.size(1) ** 0.5
        now = torch.maximum(highest, scores.amax(dim=1, keepdim=True))
        total = total * (highest - now).exp() + (scores - now).exp().sum(dim=1, keepdim=True)
        mixed, highest = mixed * (highest - now).exp() + (scores - now).exp() @ values, now
    return mixed / total
"""
VOCABULARY = """
def build_vocabulary(tokens):
    itos = list(dict.fromkeys(SPECIAL + tokens))
    return {token: index for index, token in enumerate(itos)}, itos
def encode(tokens, stoi):
    return [stoi.get(token, 1) for token in tokens]
"""
REPAIRED = "\ndef repaired_weights(scores):\n    return torch.softmax(scores, dim=-1)"
MERGES = "def learn_merges(counts, steps):\n    "
LOOKUP = "def lookup_as_matmul(ids, weight):\n    "
ANSWERS = [  # exercise, answer, key of the message that every edition has, or None where the answer is right
    ("merges", MERGES + "merges = []", "nothing-returned"),
    ("merges", MERGES + "yield ('a', 'b')", "wrong-kind"),
    ("merges", MERGES + "return {}", "wrong-kind"),
    ("merges", MERGES + "return [1, 2, 3]", "pairs-are-tuples"),
    ("merges", MERGES + "counts.clear()\n    return []", "input-changed"),
    ("merges", "def learn_merges(counts):\n    return []", "wrong-parameters"),
    ("vocabulary", VOCABULARY, None),
    ("vocabulary", VOCABULARY.replace("return [", "["), "nothing-returned"),
    ("vocabulary", VOCABULARY.replace("return [", "return torch.tensor([") + ")", "wrong-kind"),
    ("vocabulary", VOCABULARY.replace("return {", "return itos or {"), "wrong-kind"),
    ("lookup", LOOKUP + "return (torch.eye(len(weight))[ids].unsqueeze(-1) * weight).sum(1)", None),
    ("lookup", LOOKUP + "return torch.stack([weight[i] for i in ids])", "rows-by-indexing"),
    ("lookup", LOOKUP + "return torch.gather(weight, 0, ids[:, None].expand(-1, weight.size(1)))", "rows-by-indexing"),
    ("table", "attends_most_to, weight_of_on = 'ｏｎ ', torch.tensor(0.222)", None),
    ("table", "import numpy\nattends_most_to, weight_of_on = 'On', numpy.float32(0.222)", None),
    *[("table", f"attends_most_to, weight_of_on = {word}, 0.222", "not-a-choice")
      for word in ("'“on”'", "'on.'", "['on']", "4", "'온'")],
    ("table", "attends_most_to, weight_of_on = 'on', 0.22", "too-few-digits"),
    ("table", "attends_most_to, weight_of_on = 'on', 0.219", "another-weight"),
    ("table", "attends_most_to, weight_of_on = 'on', 10**400", "another-weight"),
    ("table", "attends_most_to, weight_of_on = 'on', [0.222]", "not-a-number"),
    ("spread", "std_of_scores, std_divided_by_root, std_divided_by_width = 16, 1, 0.05", "divide-the-deviation"),
    ("spread", "std_of_scores, std_divided_by_root, std_divided_by_width = 16, 1, 0.06", "too-few-digits"),
    ("attend", "def attend(query, key, value):\n    weights = torch.softmax(query @ key.mT / query.size(-1) ** 0.5, -1)\n    return weights @ value, weights", "wrong-parameters"),
    ("attend", "def attend(query, key, value, mask=None):\n    query *= 2\n    return query, query", "input-changed"),
    *[("axis", f"def failing_scores():\n    return {scores}{REPAIRED}", key) for scores, key in [
        ("torch.zeros(2, 3, 4)", None),
        ("torch.eye(3).double().expand(2, 3, 3)[..., :2]", None),
        ("torch.zeros(2, 3, 4).half()", None),
        ("torch.zeros(2, 3, 4).long()", "wrong-dtype"),
        ("torch.zeros(0, 0)", "no-scores"),
        ("torch.zeros(3)", "scores-need-rows"),
    ]],
    ("blocks", BLOCKS, None),
    ("blocks", BLOCKS.replace("return", "value.zero_()\n    return"), "input-changed"),
    ("blocks", BLOCKS.replace("key.split(block)", "key.split(block)[:1]"), "keys-never-read"),
]  # fmt: skip


@pytest.mark.parametrize("name,answer,key", ANSWERS)
@pytest.mark.parametrize("language", ["en", "ko"])
def test_answers_of_many_kinds_get_the_message_that_is_true_for_them(language, name, answer, key):
    source, exercise = next(case for case in CASES if case[0].language == language and case[1].id == name)
    rejected = run(source, exercise, answer)
    assert (rejected and rejected[0]) == key, rejected
    if key:
        text = exercise.messages.get(key) or checking.COMMON[language][key]
        assert sentence(text, key).fullmatch(rejected[1])


def sentence(text, key):
    """What a student sees: the message, its gaps filled, and its key."""
    parts = [re.escape(part) for part in re.split(r"{\w+(?::[.\w]+)?}", text)]
    return re.compile(r"(?!{\w+}).+".join(parts) + re.escape(f" [{key}]"))


@cases
def test_what_a_student_starts_from_does_not_pass(source, exercise):
    if exercise.cells:
        assert run(source, exercise, exercise.start, ["test"]) is not None


@cases
def test_every_message_that_a_test_names_is_written_and_every_written_one_is_used(source, exercise):
    code = "\n".join(cell.code for cell in exercise.cells if cell.role in ("test", "hidden"))
    named = {text for text in re.findall(r'"([a-z]+(?:-[a-z]+)+)"', code)} - set(checking.COMMON["en"])
    assert named <= set(exercise.messages) <= set(re.findall(r'"([\w-]+)"', code))


@cases
def test_messages_are_in_the_language_of_the_edition(source, exercise):
    for text in exercise.messages.values():
        hangul = len(re.findall("[가-힣]", text))
        assert (hangul > 8) if source.language == "ko" else (hangul < 8), text


@pytest.mark.parametrize("name", sorted({source.name for source in SETS}))
def test_both_languages_have_the_same_exercises_and_cells(name):
    english, korean = (read_set(FOLDER / language / f"{name}.md") for language in ("en", "ko"))
    assert english.setup == korean.setup

    def skeleton(source):
        return [
            (
                e.id,
                e.label,
                e.kind,
                e.difficulty,
                e.minutes,
                e.points,
                e.cells,
                list(e.messages),
                len(e.hints),
            )
            for e in source.exercises
        ]

    assert skeleton(english) == skeleton(korean)


@pytest.mark.parametrize("source", SETS, ids=[f"{s.language}-{s.name}" for s in SETS])
def test_a_chapter_has_five_graded_exercises_of_several_kinds(source):
    assert len([e for e in source.exercises if e.cells]) >= 5
    assert len({e.kind for e in source.exercises}) >= 4


@pytest.mark.parametrize("source", SETS, ids=[f"{s.language}-{s.name}" for s in SETS])
def test_stored_notebooks_and_messages_are_fresh(source):
    from notebooks import without_address

    fresh = student_notebook(collection.sheet_of(source), collection.install_address(FOLDER))
    stored = (FOLDER / source.language / f"{source.name}.ipynb").read_text("utf-8")
    text = nbformat.writes(fresh, version=4, ensure_ascii=False) + "\n"
    assert without_address(stored) == without_address(text), "run `make notebooks`"
    known = json.loads(
        (ROOT / f"src/tutorial_lib/assets/exercises_{source.language}.json").read_text("utf-8")
    )
    assert known[source.name] == {e.id: e.messages for e in source.exercises}, "run `make notebooks`"


@pytest.mark.parametrize("source", SETS, ids=[f"{s.language}-{s.name}" for s in SETS])
def test_neither_page_nor_notebook_holds_what_is_hidden(source):
    book = student_notebook(collection.sheet_of(source), "x")
    notebook = nbformat.writes(book)
    with_solutions = page(source, "c", "d")
    without = page(source, "c", "d", solutions=False)
    for text in (notebook, with_solutions, without):
        assert "HIDDEN" not in text and "BEGIN SOLUTION" not in text
    text = "\n".join(cell.source for cell in book.cells)
    for exercise in source.exercises:
        secret = [*lines_of(exercise, "hidden"), *lines_of(exercise, "wrong")]
        solution = [*lines_of(exercise, "answer"), *exercise.solution.split("\n")]
        allowed = exercise.start + exercise.of("test")[0].code if exercise.cells else ""
        for line in (line for line in secret if line not in allowed and line not in exercise.answer):
            assert line not in with_solutions and line not in text, line
        for line in (line for line in solution if line and line not in allowed):
            assert line in with_solutions and line not in without and line not in text, line


def lines_of(exercise, role):
    lines = [line.strip() for cell in exercise.of(role) for line in cell.code.split("\n")]
    common = ("import ", "from ", "test = check", "###", "generator = ", "def ", '"""', "return ")
    return [line for line in lines if len(line) > 25 and not line.startswith(common)]


PLANTED = """\
(x-exercises)=
# Title

Intro.

(x-one)=
## One

:::{exercise} one
:kind: implement
:difficulty: 1
:minutes: 5
:::

Prompt.

:::{hint}
A hint.
:::

```{code-cell} ipython3
:ex: {role: answer}
def f():
    ### BEGIN SOLUTION
    return "SECRET-SOLUTION"
    ### END SOLUTION
```
```{code-cell} ipython3
:ex: {role: test, points: 1}
check("one").that(f(), "no-way")
```
```{code-cell} ipython3
:ex: {role: hidden, points: 1}
check("one").that(f() == "SECRET-HIDDEN", "no-way")
```
```{code-cell} ipython3
:ex: {role: wrong, expect: no-way}
SECRET_WRONG = f = lambda: 0
```
```{code-cell} ipython3
:ex: {role: wrong, expect: no-way}
SECRET_WRONG = f = lambda: 1
```

:::{solution}
SECRET-WORDS
:::

:::{messages}
no-way: "No way."
:::
"""


@pytest.fixture
def planted(tmp_path):
    (tmp_path / "en").mkdir()
    path = tmp_path / "en" / "07_x.md"
    path.write_text(PLANTED)
    return path


def test_planted_markers_stay_where_they_belong(planted):
    source = read_set(planted)
    sheet = collection.sheet_of(source)
    assert "SECRET" not in nbformat.writes(student_notebook(sheet, "x"))
    assert "SECRET" not in page(source, "c", "d", solutions=False)
    shown = page(source, "c", "d")
    assert set(re.findall(r"SECRET\W\w+", shown)) == {"SECRET-SOLUTION", "SECRET-WORDS"}
    graders = nbformat.writes(grader_notebook(sheet, "x", "nonce"))
    assert "SECRET-HIDDEN" in graders and "SECRET-SOLUTION" not in graders


@pytest.mark.parametrize(
    "old,new,complaint",
    [
        (":kind: implement", ":kind: riddle", "kind must be one of .* got 'riddle'"),
        ("{role: hidden, points: 1}", "{role: secret}", "with one of setup, .* got {'role': 'secret'}"),
        ("expect: no-way}\nSECRET_WRONG = f = lambda: 1", "expect: nowhere}\n1", "message 'nowhere'"),
        (":::{hint}\nA hint.\n:::", "", "at least one {hint}"),
        ("### BEGIN SOLUTION", "#", "needs a part between"),
        ("(x-exercises)=\n# Title", "Title", "expected a label and a title"),
        ("Prompt.", ":::{tabs}\n:::", "unknown directive tabs"),
    ],
)
def test_what_an_author_forgot_is_named(planted, old, new, complaint):
    planted.write_text(PLANTED.replace(old, new))
    with pytest.raises(ValueError, match=complaint):
        read_set(planted)


def test_an_overlay_adds_hidden_tests_and_words_to_the_graders_version_alone(planted, tmp_path):
    private = tmp_path / "private"
    private.mkdir()
    (private / "07_x.md").write_text(
        ":::{exercise} one\n:::\n\n```{code-cell} ipython3\n:ex: {role: hidden, points: 2}\n"
        'check("one").that(f() == "OVERLAY", "ours")\n```\n\n:::{messages}\nours: "Ours."\n:::\n'
    )
    assert list(read_overlay(private / "07_x.md")) == ["one"]
    source = read_set(planted)
    (exercise,) = collection.with_overlay(list(source.exercises), private, [source.name])
    assert exercise.points == 4 and exercise.messages["ours"] == "Ours."
    from dataclasses import replace

    sheet = replace(collection.sheet_of(source), exercises=(exercise,))
    assert "OVERLAY" in nbformat.writes(grader_notebook(sheet, "x", "n"))
    assert "OVERLAY" not in nbformat.writes(student_notebook(sheet, "x"))


def test_a_stub_says_that_code_is_missing():
    code = "def f(x):\n    ### BEGIN SOLUTION\n    y = x\n    return y\n    ### END SOLUTION\n"
    assert stub(code) == "def f(x):\n    raise check.unanswered  # your code"


def test_what_is_missing_is_told_in_the_language_of_the_notebook():
    for language, words in (("en", "no answer here yet"), ("ko", "아직 답이 없습니다")):
        assert words in str(open_exercises("05_scaled_dot_product_attention", language).unanswered)


def rejected(call, *args, **kwargs):
    """The sentence with which a test of 05-attend rejects an answer."""
    test = open_exercises("05_scaled_dot_product_attention", "en")("attend")
    with pytest.raises(Wrong) as caught:
        getattr(test, call)(*args, **kwargs)
    return str(caught.value)


@pytest.mark.parametrize("value,got", [(None, "NoneType"), ([1], "list (1)"), (range(2), "range")])
def test_another_number_of_results_is_told(value, got):
    assert f"f(x) must return (a, b), but it returned {got}." in rejected(
        "results", value, ["a", "b"], "f(x)"
    )
    test = open_exercises("05_scaled_dot_product_attention", "en")("attend")
    assert test.results([1, 2], ["a", "b"], "f(x)") == (1, 2)


def test_another_dtype_is_told_before_numbers_are_compared():
    import torch

    wide = torch.zeros(2, dtype=torch.float64)
    assert "w must have the dtype float32, but it has float64" in rejected("tensor", wide, (2,), "w")
    said = rejected("close", torch.ones(2), wide, "differs-from-torch")
    assert "must have the dtype float64, but it has float32" in said


@pytest.mark.parametrize("value", ["left", " LEFT ", "left,", True])
def test_an_answer_in_words_is_one_of_its_choices(value):
    right = checking.digest("attend", "side", str(value is True).lower() if value is True else "left")
    choices = [True, False] if value is True else ["left", "right"]
    asked = {"right": right, "otherwise": "differs-from-torch", "choices": choices, "name": "side_of_x"}
    open_exercises("05_scaled_dot_product_attention", "en")("attend").answer(value, "side", **asked)
    assert "side_of_x must be one of" in rejected("answer", "up", "side", **asked)
    assert "There is no answer to side_of_x yet" in rejected("answer", "  ", "side", **asked)


def test_a_number_that_is_none_is_told():
    asked = {"right": "x", "otherwise": "differs-from-torch", "digits": 2}
    assert "w contains NaN or infinity" in rejected("answer", float("nan"), "w", **asked)
    assert "w must be a number, but it is of type str" in rejected("answer", "0.5", "w", **asked)


def test_a_message_is_shown_without_a_traceback():
    with pytest.raises(Wrong) as caught:
        open_exercises("05_scaled_dot_product_attention", "ko")("attend").that(False, "softmax-over-queries")
    (line,) = caught.value._render_traceback_()
    assert line.startswith("✗ 소프트맥스가 쿼리 방향으로") and line.endswith("[softmax-over-queries]")


def test_what_a_notebook_asks_for_must_exist():
    with pytest.raises(ValueError, match="language must be one of en, ko, got 'de'"):
        open_exercises("05_scaled_dot_product_attention", "de")
    with pytest.raises(ValueError, match="got '99_x'"):
        open_exercises("99_x", "en")
    with pytest.raises(ValueError, match="got 'nothing'"):
        open_exercises("05_scaled_dot_product_attention", "en")("nothing")


class Chameleon:
    """Equal to everything, greater than everything."""

    def __getattr__(self, name):
        return self

    def __call__(self, *a, **k):
        return self

    def __eq__(self, other):
        return True

    __hash__ = None
    __le__ = __lt__ = __sub__ = __abs__ = __eq__


def test_an_object_that_fakes_comparisons_is_no_tensor():
    import torch

    with pytest.raises(Wrong, match=r"output must be a torch\.Tensor, but it is of type Chameleon"):
        open_exercises("05_scaled_dot_product_attention", "en")("attend").close(
            Chameleon(), torch.zeros(2), "differs-from-torch"
        )
