"""An assignment and results of it as grading stores them, for tests that grade nothing."""

from __future__ import annotations

from tutorial_lib.teaching import kept, verdict

DESCRIBED = {
    "name": "hw1",
    "title": "과제 1",
    "language": "ko",
    "deadline": "2026-09-30 23:59",
    "nonce": "n",
    "exercises": [
        {"name": "05-a", "title": "가", "points": 4, "manual": False, "messages": {"k": "틀렸습니다."}, "rubric": "", "model": ""},
        {"name": "05-b", "title": "나", "points": 2, "manual": True, "messages": {}, "rubric": "r", "model": "m"},
    ],
}  # fmt: skip


class Nothing:
    flags = ()
    answered = ("05-a-answer",)
    book = {"cells": []}


def said(**tests):
    names = {
        "05-a-test": ("Wrong", "x [k]"),
        "zz-05-a-k": ("Wrong", "x [k]"),
        "zz-canary": ("AssertionError", "n"),
    }
    names |= tests
    listed = {name: {"ran": True, "error": e, "text": t} for name, (e, t) in names.items()}
    return {"success": True, "tests": listed, "scores": {"05-a-test": 0.0}, "log": ""}


def keep(target, student, content="c", **changes):
    """Store a result with an answer to 05-b, as grading does."""
    result = verdict.judge(DESCRIBED, student, Nothing, said())
    result |= {"key": kept.student_key(student), "seconds": 1.5, "content": content}
    kept.store(target, result | {"answers": {"05-b": "=1+1\n둘째 줄"}} | changes)
