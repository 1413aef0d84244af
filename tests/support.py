"""What the library's tests share: Keras on torch, repeatable property tests, tables of wrong inputs."""

from __future__ import annotations

import os
import re

os.environ.setdefault("KERAS_BACKEND", "torch")

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "suite", max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

DOUBLE = torch.float64


def make(*shape, dtype=DOUBLE, seed=0):
    """Normal random numbers that are the same in every test."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def make_ids(*shape, low=1, high=20, seed=0):
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def seeded(build, *args, seed=0, **kwargs):
    """Build a module with the same new weights in every test."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(*args, **kwargs)


def error_table(rows):
    """A table of wrong inputs: (what is wrong, a call without arguments, parts of its message)."""
    return pytest.mark.parametrize("wrong, says", [row[1:] for row in rows], ids=[row[0] for row in rows])


def assert_raises(wrong, says):
    with pytest.raises(ValueError) as caught:
        wrong()
    for part in says if isinstance(says, tuple) else (says,):
        assert re.search(re.escape(part), str(caught.value)), f"{part!r} is not in: {caught.value}"


def close(a, b, tolerance=1e-12):
    """Largest absolute difference at most the tolerance, shapes equal, nothing NaN."""
    assert a.shape == b.shape, f"{tuple(a.shape)} and {tuple(b.shape)}"
    assert a.isfinite().all() and b.isfinite().all()
    difference = (a - b).abs().max().item() if a.numel() else 0.0
    assert difference <= tolerance, f"differs by {difference:.2e}, allowed {tolerance:.0e}"
    return True


def set_off(module, seed=0):
    """Give every parameter another random value, so that no bias is 0 and no gain 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.requires_grad:  # Marian keeps its table of positions among the parameters
                continue
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.1 * noise.to(parameter.dtype))
    return module
