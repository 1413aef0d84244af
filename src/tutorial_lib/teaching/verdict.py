"""From what the tests said to a result: points, a status, and flags for a human."""

from __future__ import annotations

import re
import unicodedata

KEY = re.compile(r"\[([a-z]+(?:-[a-z]+)*)\]$")
UNKNOWN_NAME = re.compile(r"name '(\w{1,60})' is not defined")
# Flags after which somebody should look; the others only inform.
FOR_HUMANS = (
    "tampered",
    "no-notebook",
    "another-notebook",
    "too-large",
    "link-or-device",
    "not-readable",
    "broken-archive",
    "too-many-files",
    "same-name",
    "not-in-roster",
    "handed-in-twice",
    "stopped",
    "graded-one-by-one",
    "answered-twice",
    "test-error",
    "scores-disagree",
    "grader-failed",
)


def blank(described: dict, student: str) -> dict:
    return {
        "student": student,
        "status": "ok",
        "flags": [],
        "points": {exercise["name"]: 0.0 for exercise in described["exercises"]},
        "messages": {},
        "places": {},
        "size": 0,
        "log": "",
    }


def failed(described: dict, student: str, log: str) -> dict:
    """The result when grading itself did not work: no points, and a human must look."""
    return blank(described, student) | {
        "status": "look",
        "flags": ["grader-failed"],
        "log": log,
        "answers": {},
    }


def judge(described: dict, student: str, found, said: dict) -> dict:
    """The result of one student from the transplanted notebook and the engine's answer."""
    result = blank(described, student)
    flags = list(found.flags)
    tests = said.get("tests", {})
    if not said["success"]:
        flags.append(stop_reason(said["log"]))
        result["log"] = said["log"]
    flags += watch(described, tests) if tests else []
    for exercise in described["exercises"]:
        name = exercise["name"]
        own = {
            test: value
            for test, value in tests.items()
            if test.startswith((f"{name}-test", f"{name}-hidden"))
        }
        result["points"][name] = round(sum(said.get("scores", {}).get(test, 0) for test in own), 4)
        if any(value["error"] and said["scores"].get(test, 0) > 0 for test, value in own.items()):
            flags.append("scores-disagree")
        for value in own.values():
            if value["error"] is None:
                continue
            answer = said.get("answers", {}).get(f"{name}-answer", value)
            first = answer if answer["error"] else value  # tests of an answer that stopped say little
            if name not in result["messages"]:
                result["messages"][name] = message(first)
                result["places"][name] = place(found, name, first)
            answered = f"{name}-answer" in found.answered
            if "KeyboardInterrupt" in (value["error"], first["error"]):  # an endless loop, or very slow
                flags.append("cell-out-of-time")
            elif message(value).startswith("error:") and answered and value["error"] != "NameError":
                flags.append("test-error")
    result["flags"] = list(dict.fromkeys(flags))
    result["status"] = status(result["flags"])
    return result


def message(value: dict) -> str:
    """The key of what a test said, or of an error of Python's."""
    key = KEY.search(value["text"]) if value["error"] == "Wrong" else None
    return key[1] if key else f"error:{safe_name(value['error'])}"


def place(found, name: str, value: dict) -> dict:
    """The line of the answer where it stopped, and the name that Python did not know.

    Both come out of the submission's kernel, so the line must be one of the answer's,
    and the name must stand in the notebook without hidden tests.
    """
    sources = {
        cell["metadata"].get("nbgrader", {}).get("grade_id", number): cell["source"]
        for number, cell in enumerate(found.book["cells"])
    }
    result, line = {}, value.get("line", 0)
    if 1 <= line <= sources.get(f"{name}-answer", "").count("\n") + 1:
        result["line"] = line
    unknown = UNKNOWN_NAME.match(value["text"]) if value["error"] == "NameError" else None
    if unknown and unknown[1] in re.findall(r"\w+", "\n".join(sources.values())):
        result["name"] = unknown[1]
    return result


def watch(described: dict, tests: dict) -> list[str]:
    """'tampered' unless each planted wrong solution and the assertion of the nonce failed as they must."""
    for test, value in tests.items():
        if not test.startswith("zz-"):
            continue
        if test == "zz-canary":
            good = value["error"] == "AssertionError" and value["text"] == described["nonce"]
        else:
            expected = next(
                test.removeprefix(f"zz-{e['name']}-")
                for e in described["exercises"]
                if test.startswith(f"zz-{e['name']}-")
            )
            good = value["error"] == "Wrong" and value["text"].endswith(f"[{expected}]")
        if not good:
            return ["tampered"]
    return []


def stop_reason(log: str) -> str:
    for words, flag in (
        ("out of time", "stopped:time"),
        ("processes", "stopped:processes"),
        ("sockets", "stopped:disk"),
        ("MemoryError", "stopped:memory"),
        ("DeadKernel", "stopped:kernel-died"),
        ("Kernel died", "stopped:kernel-died"),
        ("Timeout", "stopped:time"),
    ):
        if words in log:
            return flag
    return "stopped"


def safe_name(name: str) -> str:
    """The name of an error if it is one of Python's own; a submission can give an error any name."""
    import builtins

    known = getattr(builtins, name, None) if isinstance(name, str) else None
    return name if isinstance(known, type) and issubclass(known, BaseException) else "Error"


def status(flags: list[str]) -> str:
    """One word for the row: look, nothing, or ok."""
    if any(flag.split(":")[0] in FOR_HUMANS for flag in flags):
        return "look"
    if "nothing-handed-in" in flags or "unchanged" in flags:
        return "nothing"
    return "ok"


def manual_answers(described: dict, found) -> dict[str, str]:
    """What the student wrote where a human gives the points, as Hangul syllables rather than single letters."""
    texts = {}
    by_name = {
        cell["metadata"]["nbgrader"]["grade_id"]: cell["source"]
        for cell in found.book["cells"]
        if cell["metadata"].get("nbgrader")
    }
    for exercise in described["exercises"]:
        name = f"{exercise['name']}-answer"
        if exercise["manual"] and name in found.answered:
            texts[exercise["name"]] = unicodedata.normalize("NFC", by_name[name])[:20_000]
    return texts
