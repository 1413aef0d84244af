"""Feedback: the error of the answer itself with its line, why nothing was found, and only those who are there."""

import json

import pytest
from stored import DESCRIBED, keep, said

from tutorial_lib.teaching import kept, verdict
from tutorial_lib.teaching.engine import read_answers
from tutorial_lib.teaching.feedback import comment, feedback
from tutorial_lib.teaching.transplant import Found
from tutorial_lib.teaching.words import REPORT

EXERCISE = {"name": "05-a", "manual": False, "points": 4, "messages": {}, "kind": "concept"}


def notebook(source):
    """A graded notebook in which the answer was run, as a kernel leaves it."""
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.clear_instance()
    shell, outputs = InteractiveShell.instance(), []

    def show(kind, value, traceback):
        outputs.append(
            {"output_type": "error", "ename": kind.__name__, "evalue": str(value), "traceback": traceback}
        )

    shell._showtraceback = show
    shell.run_cell("1 + 1", store_history=True)
    shell.run_cell(source, store_history=True)
    InteractiveShell.clear_instance()
    nbgrader = {"grade_id": "05-a-answer", "solution": True, "grade": False}
    cell = {"cell_type": "code", "source": source, "metadata": {"nbgrader": nbgrader}}
    return {"cells": [{**cell, "outputs": outputs, "execution_count": 2}]}


def sentence(language, source, test=("NameError", "name 'attend' is not defined")):
    book = notebook(source)
    tests = said(**{"05-a-test": test}) | {"answers": read_answers(book)}
    result = verdict.judge(DESCRIBED, "kim", Found(book, ["05-a-answer"]), tests)
    return comment({"language": language}, EXERCISE, result, {}, REPORT[language])[1], result


@pytest.mark.parametrize(
    "source, line, error",
    [
        ("x = 1\ndef attend(query)\n    return query", 2, "SyntaxError"),
        ("def attend(query):\nreturn query", 2, "IndentationError"),
        ("def attend(query):\n    x = (1\n", 2, "SyntaxError"),
    ],
)
def test_an_answer_that_python_cannot_read_is_named_with_its_line(source, line, error):
    english, result = sentence("en", source)
    assert f"cannot read line {line} of your answer ({error})" in english
    assert f"답의 {line}번째 줄을 파이썬이 읽지 못합니다({error})" in sentence("ko", source)[0]
    assert result["flags"] == []


def test_an_answer_that_stops_is_named_with_its_line():
    names = "x = 1\nlongest = eojeol"
    assert sentence("en", names)[0] == "In line 2 of your answer: the name eojeol is not defined (NameError)."
    assert sentence("ko", names)[0] == "답의 2번째 줄: 정의되지 않은 이름을 썼습니다: eojeol (NameError)"
    within = "def f(x):\n    return x + 'a'\n\nf(1)"
    assert sentence("en", within)[0] == "In line 2 of your answer: the cell stopped with TypeError."


def test_an_answer_that_stands_leaves_the_word_to_the_test():
    assert sentence("en", "attend2 = 1  # not attend")[0] == "The name attend is not defined (NameError)."
    assert sentence("en", "attend = 1", ("Wrong", "x [unanswered]"))[0] == REPORT["en"]["unanswered"]
    assert sentence("en", "attend = 1", ("TypeError", "x"))[0] == "The cell stopped with TypeError."


def test_a_name_that_stands_nowhere_in_the_notebook_is_not_repeated():
    forged = "e = NameError('name ' + repr('SEC' + 'RET') + ' is not defined')\nraise e"
    text, result = sentence("en", forged)
    assert text == "In line 2 of your answer: the cell stopped with NameError."
    assert "SECRET" not in json.dumps(result)


def test_an_endless_loop_in_the_answer_is_no_unknown_name():
    text, result = sentence("en", "raise KeyboardInterrupt  # what the limit of time sends")
    assert text == REPORT["en"]["slow"] and result["flags"] == ["cell-out-of-time"]


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(
    "key, word, kind",
    [
        ("not-a-choice", "not_a_choice", "concept"),
        ("not-a-number", "not_a_number", "concept"),
        ("not-finite", "not_a_number", "concept"),
        ("not-finite", "another_kind", "implement"),
    ],
)
def test_an_answer_of_another_kind_is_told_what_is_asked_for(language, key, word, kind):
    exercise = EXERCISE | {"choices": ["'eojeol'", "'jamo'"], "kind": kind}
    result = {"points": {"05-a": 0.0}, "messages": {"05-a": key}}
    (_, text), words = (
        comment({"language": language}, exercise, result, {}, REPORT[language]),
        REPORT[language],
    )
    assert text == words[word].format(choices="'eojeol', 'jamo'")
    assert ("dtype" in text) == (word == "another_kind")


def page(target, language="en"):
    (path,) = feedback(target, DESCRIBED | {"language": language})
    return path.read_text("utf-8")


@pytest.mark.parametrize("language", ["en", "ko"])
def test_where_no_notebook_was_found_the_page_says_this_once(language, tmp_path):
    keep(tmp_path, "kim", flags=["no-notebook"], messages={}, answers={}, status="look")
    kept.remember(tmp_path, ["kim"])
    text, words = page(tmp_path, language), REPORT[language]
    assert text.count(words["no_notebook"]) == 1 and words["unanswered"] not in text
    keep(tmp_path, "kim", flags=["too-large", "no-notebook"], messages={}, answers={}, size=34_874_412)
    text = page(tmp_path, language)
    assert words["too_large"].format(size=35, most=20) in text and words["no_notebook"] not in text


def test_pages_of_files_that_are_gone_move_aside_and_others_are_left_alone(tmp_path):
    for student in ("kim_hw1", "lee"):
        keep(tmp_path, student)
    kept.remember(tmp_path, ["kim_hw1", "lee"])
    first = feedback(tmp_path, DESCRIBED)
    own = tmp_path / "feedback" / "kim_hw1 my letter.html"
    own.write_text("dear Kim")
    keep(tmp_path, "1")
    kept.remember(tmp_path, ["1", "lee"])
    now = feedback(tmp_path, DESCRIBED)
    assert set((tmp_path / "feedback").iterdir()) == {*now, own} and len(now) == 2
    assert [path.name for path in (tmp_path / "feedback-old").iterdir()] == [first[0].name]


@pytest.mark.parametrize(
    "language, says", [("en", "… was changed in place; leave"), ("ko", "입력 …의 값이 바뀌었습니다.")]
)
def test_a_message_with_gaps_keeps_its_sentence_and_nothing_of_the_submission(language, says):
    result = {"points": {"05-a": 0}, "messages": {"05-a": "input-changed"}, "places": {}, "answers": []}
    text = comment({"language": language}, EXERCISE, result, {}, REPORT[language])[1]
    assert says in text and "{" not in text
