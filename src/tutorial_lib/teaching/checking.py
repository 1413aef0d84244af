"""How an exercise tells a reader what went wrong: tests that fail with a sentence in the reader's language.

The cells of an exercise are the same in every language, so a test names a
message by its key; the words come from `assets/exercises_<language>.json`,
which is generated from the exercises' sources.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import math
import operator
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
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
        "too-few-digits": "{name}: give {digits} digits after the point.",
        "wrong-kind": "{name} must be a {want}, but it is of type {got}.",
        "nothing-returned": "{name} must be a {want}, but it is None; is `return` missing?",
        "wrong-parameters": "{name} must take the arguments {want}, in this order.",
        "input-changed": "{name} was changed in place; leave the inputs as they are.",
        "passed": "{name}: the tests pass.",
    },
    "ko": {
        "not-a-tensor": "{name}의 타입은 torch.Tensor여야 하는데, 지금은 {got}입니다.",
        "wrong-dtype": "{name}: dtype이 {want}인 텐서여야 하는데, 지금은 {got}입니다.",
        "wrong-shape": "{name}: 모양이 {want}인 텐서여야 하는데, 지금은 {got}입니다.",
        "not-finite": "{name}에 NaN이나 무한대가 들어 있습니다.",
        "not-these-results": "{name}에서 {want} 순서로 돌려주어야 하는데, 지금 돌려준 것은 {got}입니다.",
        "unanswered": "여기에 아직 답이 없습니다. 이 줄을 지우고 코드를 쓰세요.",
        "unanswered-part": "{name}에 아직 답이 없습니다.",
        "not-a-choice": "{name}에는 {want} 가운데 하나를 써야 하는데, 지금은 {got}입니다.",
        "not-a-number": "{name}에는 숫자를 써야 하는데, 지금 타입은 {got}입니다.",
        "too-few-digits": "{name}: 소수점 아래 {digits}자리까지 쓰세요.",
        "wrong-kind": "{name}: {want} 타입이어야 하는데, 지금은 {got} 타입입니다.",
        "nothing-returned": "{name}: {want} 타입이어야 하는데, 지금은 None입니다. return을 빠뜨리지 않았나요?",
        "wrong-parameters": "{name}: 인자를 {want} 순서로 받아야 합니다.",
        "input-changed": "입력 {name}의 값이 바뀌었습니다. 입력은 그대로 두세요.",
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
    """An answer in words as its digest was made: small letters of normal width, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", str(value)).lower().replace(",", " ").split())


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

    def call(self, function: Callable, **arguments: object) -> object:
        """What the reader's function returns for copies of these arguments, which it must leave as they are."""
        import torch

        given = {
            name: value.clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
            for name, value in arguments.items()
        }
        try:
            inspect.signature(function).bind(*given.values())
        except TypeError:
            self.fail("wrong-parameters", name=function.__name__, want=f"({', '.join(arguments)})")
        value = function(*given.values())
        for name, before in arguments.items():
            same = torch.equal if isinstance(before, torch.Tensor) else operator.eq
            if not same(before, given[name]):
                self.fail("input-changed", name=name)
        return value

    def kind(self, value: object, wanted: type, name: str) -> None:
        """Demand an object of Python's own: a list, a dict."""
        if value is None:
            self.fail("nothing-returned", name=name, want=wanted.__name__)
        if not isinstance(value, wanted):
            self.fail("wrong-kind", name=name, want=wanted.__name__, got=type(value).__name__)

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
        """Demand a tensor, and no object that resembles one, of this dtype and shape and without NaN.

        The dtype "float" is any with a point.
        """
        import torch

        if type(value) is not torch.Tensor:
            self.fail("not-a-tensor", name=name, got=type(value).__name__)
        got = str(value.dtype).removeprefix("torch.")
        if not (value.is_floating_point() if dtype == "float" else got == dtype):
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
        if getattr(value, "ndim", None) == 0:  # a number of numpy or torch
            value = value.item()
        if value is None or value is ... or (isinstance(value, str) and not value.strip()):
            self.fail("unanswered-part", name=name)
        if digits is None:
            tried = [normal(value)]
            if choices and tried[0] not in map(normal, choices):
                self.fail("not-a-choice", name=name, want=", ".join(map(repr, choices)), got=repr(value))
        else:
            if isinstance(value, bool) or not isinstance(value, int | float):
                self.fail("not-a-number", name=name, got=type(value).__name__)
            if isinstance(value, int):
                value = max(-1e99, min(value, 1e99))  # no float is as large as 10**400
            if not math.isfinite(value):
                self.fail("not-finite", name=name)
            step = 10.0**-digits
            tried = [f"{value + shift * step + 0.0:.{digits}f}" for shift in ((0, -1, 1) if digits else (0,))]
        digests = [digest(self.exercise, part, text) for text in tried]
        if right in digests:
            return
        key = next((key for known, key in (wrong or {}).items() if known in digests), None)
        if key is None and digits and self.rounds(value, part, right, digits):
            self.fail("too-few-digits", name=name, digits=digits)
        self.fail(key or otherwise)

    def rounds(self, value: float, part: str, right: str, digits: int) -> bool:
        """Whether a number is the right one, rounded to fewer digits after the point."""
        kept = next((kept for kept in range(1, digits) if round(value, kept) == value), digits)
        middle, half = round(value * 10**digits), 10 ** (digits - kept) // 2
        near = range(middle - half, middle + half + 1)
        return right in (digest(self.exercise, part, f"{n / 10**digits:.{digits}f}") for n in near)

    def passed(self) -> str:
        """The sentence that a visible test ends with."""
        return self.common["passed"].format(name=self.exercise)
