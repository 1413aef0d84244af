"""How an exercise tells a reader what went wrong: tests that fail with a sentence in the reader's language.

The cells of an exercise are the same in every language, so a test names a
message by its key; the words come from `assets/exercises_<language>.json`,
which is generated from the exercises' sources.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from importlib import resources

LANGUAGES = ("en", "ko")
SEED_VARIABLE = "GRADER_SEED"  # set when a submission is graded, so that hidden tests draw other numbers

COMMON = {
    "en": {
        "not-a-tensor": "{name} must be a torch.Tensor, but it is of type {got}.",
        "wrong-dtype": "{name} must have the dtype {want}, but it has {got}.",
        "wrong-shape": "{name} must have the shape {want}, but it has {got}.",
        "not-finite": "{name} contains NaN or infinity.",
        "not-these-results": "{name} must return {want}, but it returned {got}.",
        "unanswered": "There is no answer here yet: replace this line with your code.",
        "unanswered-part": "There is no answer to {name} yet.",
        "not-a-choice": "{name} must be one of {want}, but it is {got}.",
        "not-a-number": "{name} must be a number, but it is of type {got}.",
        "passed": "{name}: the tests pass.",
    },
    "ko": {
        "not-a-tensor": "{name}은(는) torch.Tensor여야 하는데, 지금 타입은 {got}입니다.",
        "wrong-dtype": "{name}의 dtype은 {want}이어야 하는데, 지금은 {got}입니다.",
        "wrong-shape": "{name}의 모양은 {want}이어야 하는데, 지금은 {got}입니다.",
        "not-finite": "{name}에 NaN이나 무한대가 들어 있습니다.",
        "not-these-results": "{name}의 반환값은 {want}이어야 하는데, 지금 돌려준 것은 {got}입니다.",
        "unanswered": "여기에 아직 답이 없습니다. 이 줄을 지우고 코드를 쓰세요.",
        "unanswered-part": "{name}에 아직 답이 없습니다.",
        "not-a-choice": "{name}에는 {want} 가운데 하나를 써야 하는데, 지금은 {got}입니다.",
        "not-a-number": "{name}에는 숫자를 써야 하는데, 지금 타입은 {got}입니다.",
        "passed": "{name}: 테스트를 통과했습니다.",
    },
}


class Wrong(AssertionError):
    """An answer that a test rejects. Notebooks show its sentence alone, without a traceback."""

    def __init__(self, text: str, key: str):
        super().__init__(f"{text} [{key}]")
        self.key = key

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        return [f"✗ {self}"]


def digest(exercise: str, part: str, value: object) -> str:
    """What a test holds instead of an answer, so that reading the test does not give the answer away."""
    return hashlib.sha256(f"{exercise}/{part}/{value}".encode()).hexdigest()[:12]


def normal(value: object) -> str:
    """An answer in words as its digest was made: small letters, one space between words."""
    return " ".join(str(value).lower().replace(",", " ").split())


def seed(default: int) -> int:
    """The seed of a hidden test: `default`, mixed with the grader's own seed when there is one."""
    return default + 1000 * int(os.environ.get(SEED_VARIABLE, "0"))


def open_exercises(sets: str | Sequence[str], language: str, extra: Mapping | None = None) -> Exercises:
    """Get the tests' messages for one or more sets of exercises.

    Args:
        sets: name of a set, such as "05_scaled_dot_product_attention", or several.
        language: "en" or "ko".
        extra: messages by exercise and key that come on top, {"attend": {"key": "text"}}.

    Raises:
        ValueError: if the language or a set is unknown.
    """
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, got {language!r}")
    path = resources.files("tutorial_lib") / "assets" / f"exercises_{language}.json"
    known = json.loads(path.read_text(encoding="utf-8"))
    messages: dict[str, dict[str, str]] = {}
    for name in [sets] if isinstance(sets, str) else sets:
        if name not in known:
            raise ValueError(f"sets must be of {', '.join(known)}, got {name!r}")
        messages.update(known[name])
    for exercise, texts in (extra or {}).items():
        messages[exercise] = {**messages.get(exercise, {}), **texts}
    return Exercises(messages, language)


class Exercises:
    """All messages of a notebook; `exercises("attend")` gives the tests of one exercise."""

    def __init__(self, messages: Mapping[str, Mapping[str, str]], language: str):
        self.messages = messages
        self.language = language

    def __call__(self, exercise: str) -> Test:
        if exercise not in self.messages:
            raise ValueError(f"exercise must be one of {', '.join(self.messages)}, got {exercise!r}")
        return Test(exercise, self.messages[exercise], COMMON[self.language])

    @property
    def unanswered(self) -> Wrong:
        """What a student's notebook raises where the code is still missing: `raise check.unanswered`."""
        return Wrong(COMMON[self.language]["unanswered"], "unanswered")


class Test:
    """Tests of one exercise. Each method returns nothing, or raises `Wrong` with a message."""

    __test__ = False  # not a test of the library, whatever pytest thinks of the name

    def __init__(self, exercise: str, messages: Mapping[str, str], common: Mapping[str, str]):
        self.exercise, self.messages, self.common = exercise, messages, common

    def fail(self, key: str, **values: object) -> None:
        """Reject the answer with the message of this key."""
        text = self.messages.get(key) or self.common.get(key)
        if text is None:
            raise ValueError(f"the exercise {self.exercise!r} has no message {key!r}")
        raise Wrong(text.format(**values) if values else text, key)

    def that(self, condition: object, key: str) -> None:
        """Reject the answer unless the condition holds."""
        if not bool(condition):
            self.fail(key)

    def results(self, value: object, names: Sequence[str], function: str) -> tuple:
        """Demand what `return a, b` gives: a tuple or list with as many results as there are names."""
        if not isinstance(value, tuple | list) or len(value) != len(names):
            got = type(value).__name__
            if isinstance(value, tuple | list):
                got += f" ({len(value)})"
            self.fail("not-these-results", name=function, want=f"({', '.join(names)})", got=got)
        return tuple(value)

    def tensor(
        self,
        value: object,
        shape: Sequence[int] | None,
        name: str,
        *,
        dtype: str = "float32",
        finite: bool = True,
    ) -> None:
        """Demand a tensor, and no object that resembles one, of this dtype and shape and without NaN."""
        import torch

        if type(value) is not torch.Tensor:
            self.fail("not-a-tensor", name=name, got=type(value).__name__)
        got = str(value.dtype).removeprefix("torch.")
        if got != dtype:
            self.fail("wrong-dtype", name=name, want=dtype, got=got)
        if shape is not None and tuple(value.shape) != tuple(shape):
            self.fail("wrong-shape", name=name, want=tuple(shape), got=tuple(value.shape))
        if finite and not bool(torch.isfinite(value).all()):
            self.fail("not-finite", name=name)

    def close(self, value, reference, key: str, *, name: str = "output", tolerance: float = 1e-5) -> None:
        """Demand a tensor of the reference's dtype and shape whose numbers differ by at most `tolerance`."""
        self.tensor(value, reference.shape, name, dtype=str(reference.dtype).removeprefix("torch."))
        self.that(
            (value.detach() - reference).abs().max().item() <= tolerance if value.numel() else True, key
        )

    def answer(
        self,
        value: object,
        part: str,
        *,
        right: str,
        wrong: Mapping[str, str] | None = None,
        otherwise: str,
        digits: int | None = None,
        choices: Sequence[str | bool] = (),
        name: str = "",
    ) -> None:
        """Demand an answer that is known by its digest only.

        Args:
            value: what the reader wrote; None, "" or ... means that there is no answer yet.
            part: name of the answer within the exercise.
            right: digest of the right answer.
            wrong: digest of a wrong answer -> key of the message for it.
            otherwise: key of the message for any other answer.
            digits: for numbers: how many digits after the point count; the last may be off by one,
                but a number without any digits must be right.
            choices: what may be answered; capitals, spaces and commas make no difference.
            name: what the reader calls the answer, where that is not `part`.
        """
        name = name or part
        if value is None or value is ... or (isinstance(value, str) and not value.strip()):
            self.fail("unanswered-part", name=name)
        if digits is None:
            tried = [normal(value)]
            if choices and tried[0] not in map(normal, choices):
                self.fail("not-a-choice", name=name, want=", ".join(map(repr, choices)), got=repr(value))
        else:
            if isinstance(value, bool) or not isinstance(value, int | float):
                self.fail("not-a-number", name=name, got=type(value).__name__)
            if not math.isfinite(value):
                self.fail("not-finite", name=name)
            step = 10.0**-digits
            tried = [f"{value + shift * step + 0.0:.{digits}f}" for shift in ((0, -1, 1) if digits else (0,))]
        digests = [digest(self.exercise, part, text) for text in tried]
        if right in digests:
            return
        self.fail(next((key for known, key in (wrong or {}).items() if known in digests), otherwise))

    def passed(self) -> str:
        """The sentence that a visible test ends with."""
        return self.common["passed"].format(name=self.exercise)
