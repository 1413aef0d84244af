"""Anyone's model, called again and again under the same conditions (used by `checks`).

The checks in `check_sequence` and `check_parts` wrap a reader's model in a
`Subject`, compare two of its outputs with `largest_change` and
`tolerance_for`, and report with `CheckReport` or `CheckError`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
        modes:     in which it was tried: "train", "eval", or "function" for what has no mode.
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

    Each call starts from torch's (or the Keras layer's) same random numbers, so
    that dropout drops the same places, and from the same buffers, so that a
    running mean has not moved; mode, buffers and random state are put back
    afterwards.

    Args:
        model: what is called.
        call:  how, as `call(model, *inputs)`, if not `model(*inputs)`.
        modes: "train", "eval" or both.

    Attributes:
        modes: those in which the model can be called; ("function",) for a plain function.

    Raises:
        ValueError: if the model cannot be called, or a mode is unknown.
    """

    def __init__(self, model: Any, call: Callable[..., Any] | None, modes: tuple[str, ...]):
        if not callable(model):
            raise ValueError(f"model must be a module, a layer or a function, got {type(model).__name__}")
        if isinstance(modes, str) or not modes or set(modes) - {"train", "eval"}:
            raise ValueError(f'modes must be a tuple of "train" and "eval", got {modes!r}')
        self.model, self.call = model, call
        # By their attributes, because importing Keras takes seconds. On the torch backend a Keras
        # layer is an nn.Module too, but its mode and its state are not where torch has them.
        self.is_keras = hasattr(model, "trainable_variables") and hasattr(model, "get_config")
        self.is_torch = isinstance(model, nn.Module) and not self.is_keras
        self.modes = tuple(modes) if self.is_torch or self.is_keras else ("function",)

    def __call__(
        self, mode: str, *inputs: Any, call: Callable[..., Any] | None = None, seed: int = 0
    ) -> Tensor:
        """Call the model and return its output without gradient.

        Args:
            mode:   one of `self.modes`.
            inputs: what the model reads.
            call:   for this once, in place of the subject's own.
            seed:   of the random numbers; another one only to find out whether they matter.

        Returns:
            the output, or the first tensor of a tuple or Hugging Face output

        Raises:
            ValueError: if the model returns no tensor.
        """
        with torch.no_grad():
            return self.with_gradient(mode, *inputs, call=call, seed=seed)

    def with_gradient(
        self, mode: str, *inputs: Any, call: Callable[..., Any] | None = None, seed: int = 0
    ) -> Tensor:
        """Do the same with an output that leads back to the parameters."""
        call = call or self.call
        with self._same_conditions(mode, seed):
            model = _InMode(self.model, mode == "train") if self.is_keras else self.model
            return _first_tensor(model(*inputs) if call is None else call(model, *inputs))

    def leave_out_random_modes(self, *inputs: Any) -> None:
        """Take those modes out of `self.modes` in which other random numbers give other outputs, as dropout does.

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
        with torch.random.fork_rng(), ExitStack() as stack:
            torch.manual_seed(seed)
            if self.is_torch:
                stack.enter_context(_torch_mode(self.model, mode == "train"))
                stack.enter_context(_lent_buffers(self.model))
            if self.is_keras:
                stack.enter_context(_keras_state(self.model, seed))
            yield


@contextmanager
def _torch_mode(model: nn.Module, training: bool) -> Iterator[None]:
    before = [(module, module.training) for module in model.modules()]  # a part may differ from the whole
    model.train(training)
    try:
        yield
    finally:
        for module, was_training in before:
            module.training = was_training


@contextmanager
def _lent_buffers(model: nn.Module) -> Iterator[None]:
    """Let the model work on copies of its buffers.

    Copying old values back instead would miss buffers that the model replaces,
    and would break a backward pass that still needs the ones it has read.
    """
    own = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module.named_buffers(recurse=False, remove_duplicate=False)
    ]
    copies = {id(buffer): buffer.detach().clone() for _, _, buffer in own}  # a shared buffer stays shared
    try:
        for module, name, buffer in own:
            setattr(module, name, copies[id(buffer)])
        yield
    finally:
        for module, name, buffer in own:
            setattr(module, name, buffer)


@contextmanager
def _keras_state(layer: Any, seed: int) -> Iterator[None]:
    # Among these variables a Keras layer keeps its statistics and the state of its dropout.
    before = [(variable, variable.value.detach().clone()) for variable in layer.non_trainable_variables]
    try:
        for variable, value in before:
            if "seed_generator_state" in variable.path:
                variable.assign(value + seed)
        yield
    finally:
        for variable, value in before:
            variable.assign(value)


class _InMode:
    """A Keras layer that is called with `training` set, also from a reader's own `call`."""

    def __init__(self, layer: Any, training: bool):
        self._layer, self._training = layer, training

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._layer(*args, **{"training": self._training, **kwargs})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layer, name)


def largest_change(output: Tensor, base: Tensor, *, dim: int = 1) -> Tensor:
    """Return for each index of one dimension the largest absolute difference of two outputs.

    Equal infinities and two NaNs are no difference; a NaN on one side counts as infinite.

    Args:
        output, base: of the same shape, such as (B, T, D).
        dim: the dimension that stays; 1 is that of the tokens.

    Returns:
        float64 (T,), or (B,) for dim 0
    """
    change = (output.double() - base.double()).abs()
    same = (output == base) | (output.isnan() & base.isnan())
    change = change.masked_fill(same, 0.0).nan_to_num(nan=float("inf"))
    others = [d for d in range(change.dim()) if d != dim]
    # Without others `amax` would take the maximum of everything, and it refuses an empty tensor.
    return change.amax(dim=others) if others and change.numel() else change


def tolerance_for(output: Tensor, tolerance: float | None) -> float:
    """Return the given tolerance, or, if that is None, what rounding of the output's dtype explains."""
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
