"""Anyone's model, called again and again under the same conditions (used by `checks`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tutorial_lib.check_messages import say

# Allowed difference in units of the output's largest number (at least 1): rounding, summed in another order.
ROUNDING = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}


class CheckError(AssertionError):
    """A check found something; the message says what, where, and what usually causes it."""


@dataclass(frozen=True)
class CheckReport:
    """A check that passed.

    Attributes:
        name:      of the check.
        modes:     in which it was tried.
        largest:   the largest difference that was seen.
        tolerance: the difference that was allowed.
        language:  of `str(report)`.
    """

    name: str
    modes: tuple[str, ...]
    largest: float
    tolerance: float
    language: str = "en"

    def __str__(self) -> str:
        modes = ", ".join(say(mode, self.language) for mode in self.modes)
        return say(
            "passed",
            self.language,
            name=self.name,
            modes=modes,
            largest=self.largest,
            tolerance=self.tolerance,
        )


class Subject:
    """A torch module, a Keras layer or a plain function, in a chosen mode.

    Each call starts from the same random numbers (so dropout drops the same
    places) and the same buffers (so a running mean has not moved), and
    everything is put back afterwards.

    Args:
        model: what is called.
        call:  how, if not `model(inputs)`.
        modes: "train", "eval" or both; a plain function has no mode and is called once.

    Raises:
        ValueError: if the model cannot be called, or a mode is unknown.
    """

    def __init__(self, model: Any, call: Callable[..., Any] | None, modes: tuple[str, ...]):
        if not callable(model):
            raise ValueError(f"model must be a module, a layer or a function, got {type(model).__name__}")
        if isinstance(modes, str) or not modes or set(modes) - {"train", "eval"}:
            raise ValueError(f'modes must be a tuple of "train" and "eval", got {modes!r}')
        self.model, self.call = model, call
        self.is_keras = hasattr(model, "trainable_variables") and hasattr(model, "get_config")
        self.is_torch = isinstance(model, nn.Module) and not self.is_keras
        self.modes = tuple(modes) if self.is_torch or self.is_keras else ("function",)

    def __call__(
        self, mode: str, *inputs: Any, call: Callable[..., Any] | None = None, seed: int = 0
    ) -> Tensor:
        """Return the first output as a tensor, without gradient."""
        with torch.no_grad():
            return self.with_gradient(mode, *inputs, call=call, seed=seed)

    def with_gradient(
        self, mode: str, *inputs: Any, call: Callable[..., Any] | None = None, seed: int = 0
    ) -> Tensor:
        """Return the first output as a tensor that leads back to the parameters."""
        call = call or self.call
        with self._same_conditions(mode, seed):
            model = _InMode(self.model, mode == "train") if self.is_keras else self.model
            return _first_tensor(model(*inputs) if call is None else call(model, *inputs))

    def leave_out_random_modes(self, *inputs: Any) -> None:
        """Forget the modes in which the same inputs give other outputs, as dropout does.

        Raises:
            ValueError: if no mode is left.
        """
        fixed = tuple(m for m in self.modes if self(m, *inputs).equal(self(m, *inputs, seed=1)))
        if not fixed:
            raise ValueError(f"this check needs a mode without random numbers, got modes={self.modes!r}")
        self.modes = fixed

    def parameters(self) -> dict[str, Tensor]:
        """Return the trainable parameters by name."""
        if self.is_keras:
            return {v.path: v.value for v in self.model.trainable_variables}
        if self.is_torch:
            return {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        return {}

    @contextmanager
    def _same_conditions(self, mode: str, seed: int) -> Iterator[None]:
        modules = list(self.model.modules()) if self.is_torch else []
        modes = [module.training for module in modules]
        buffers = [(b, b.detach().clone()) for module in modules for b in module.buffers(recurse=False)]
        # A Keras layer keeps the state of its dropout and its statistics among its variables.
        variables = list(self.model.non_trainable_variables) if self.is_keras else []
        values = [(v, v.value.detach().clone()) for v in variables]
        if self.is_torch:
            self.model.train(mode == "train")
        try:
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                for variable in variables:
                    if "seed_generator_state" in variable.path:
                        variable.assign(variable.value + seed)
                yield
        finally:
            for module, training in zip(modules, modes, strict=True):
                module.training = training
            with torch.no_grad():
                for buffer, value in buffers:
                    buffer.copy_(value)
            for variable, value in values:
                variable.assign(value)


class _InMode:
    """A Keras layer that is called with `training` set, also from a reader's own `call`."""

    def __init__(self, layer: Any, training: bool):
        self._layer, self._training = layer, training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._layer(*args, **{"training": self._training, **kwargs})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def largest_change(output: Tensor, base: Tensor, *, keep: int = 1) -> Tensor:
    """Return the largest absolute difference along one dimension; a NaN on one side counts as infinite."""
    change = (output.double() - base.double()).abs()
    same = (output == base) | (output.isnan() & base.isnan())
    change = change.masked_fill(same, 0.0).nan_to_num(nan=float("inf"))
    others = [d for d in range(change.dim()) if d != keep]
    return change.amax(dim=others) if others and change.numel() else change


def tolerance_for(output: Tensor, tolerance: float | None) -> float:
    """Return the given tolerance, or what rounding of the output's dtype explains."""
    if tolerance is not None:
        return tolerance
    finite = output[output.isfinite()]
    scale = max(1.0, float(finite.abs().max())) if finite.numel() else 1.0
    return ROUNDING.get(output.dtype, 0.0) * scale


def _first_tensor(output: Any) -> Tensor:
    if hasattr(output, "to_tuple"):  # Hugging Face
        output = output.to_tuple()
    while isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, Tensor):
        raise ValueError(f"the model must return a tensor or a tuple of them, got {type(output).__name__}")
    return output
