"""What a training run has to remember so that it can go on where it was stopped (chapter 10)."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from tutorial_lib.checkpoints import (
    Checkpoint,
    fit_weights,
    load_checkpoint,
    optimizer_state,
    optimizer_tensors,
    save_checkpoint,
    save_weights,
)

try:
    import fcntl
except ImportError:  # Windows has none; there nothing keeps two runs out of one folder
    fcntl = None

if TYPE_CHECKING:
    from accelerate import Accelerator

CHECKPOINTS, BEST = "checkpoints", "best.safetensors"
CHECKSUMS = {"data": "other training data", "held_out": "other validation or test data"}


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder of a run, and keep other runs out of it while this one writes there.

    The lock lies on the folder itself: it leaves no file, and ends with the process, however that ends.

    Raises:
        ValueError: if another run is using the folder.
        OSError: if the folder cannot be made.
    """
    (folder / CHECKPOINTS).mkdir(parents=True, exist_ok=True)
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ValueError(f"{folder}: another run is using it") from error
        yield
    finally:
        os.close(descriptor)


@dataclass
class Run:
    """What training leaves beside the model's weights.

    Attributes:
        updates: number of updates done.
        history: one entry for each evaluation: update, mean loss of training since the last one, rate, measures.
        best:    the entry with the smallest validation loss, {} if nothing was evaluated.
        seconds: of training, over all starts of this run.
        losses:  of the updates since the last evaluation.
        problems: checkpoints that had to be passed over.
    """

    updates: int = 0
    history: list[dict] = field(default_factory=list)
    best: dict = field(default_factory=dict)
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class RunState:
    """Saves and restores everything that the next update depends on.

    Args:
        accelerator: of the run.
        model, optimizer: as `accelerator.prepare` gave them.
        folder: of the run.
        identity: what a resumed run must have in common with the one that was stopped.
        keep:   number of checkpoints that stay.
    """

    def __init__(self, accelerator: Accelerator, model, optimizer, folder: Path, identity: dict, keep: int):
        self.accelerator, self.model, self.optimizer = accelerator, model, optimizer
        self.folder, self.keep = folder, keep
        self.identity = json.loads(json.dumps(identity))  # as it will come back from the file

    @property
    def plain_model(self) -> nn.Module:
        """The model without what Accelerate put around it."""
        return self.accelerator.unwrap_model(self.model)

    def resume(self) -> Run:
        """Take up the newest intact checkpoint, if there is one; return the run so far.

        Raises:
            ValueError: if the folder holds a run with another identity (the message names the differences),
                or of another model.
        """
        found, problems = load_checkpoint(self.folder / CHECKPOINTS)
        if found is None:
            return Run(problems=problems)
        theirs, ours = found.facts["identity"], self.identity
        other = {k: (theirs.get(k), ours.get(k)) for k in theirs | ours if theirs.get(k) != ours.get(k)}
        if other:
            says = ", ".join(
                CHECKSUMS.get(name) or f"{name} {was!r} (now {now!r})"
                for name, (was, now) in sorted(other.items())
            )
            raise ValueError(f"{self.folder} holds another run: {says}; choose another folder or remove it")
        try:
            fit_weights(self.plain_model, found.model)
        except ValueError as error:
            raise ValueError(f"{self.folder} holds a run of another model: {error}") from error
        self.optimizer.load_state_dict(optimizer_state(found.state, self.optimizer.state_dict()))
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(found.facts["scaler"])
        self._set_random(found.state)
        return Run(**{**found.facts["run"], "problems": found.facts["run"]["problems"] + problems})

    def save(self, run: Run) -> None:
        """Write a checkpoint; all processes take part, the first one writes."""
        from accelerate.utils import gather_object

        states = gather_object([self._random()])
        if self.accelerator.is_main_process:
            tensors = optimizer_tensors(self.optimizer.state_dict())
            for rank, random in enumerate(states):
                tensors.update({f"random.{rank}.{name}": value for name, value in random.items()})
            scaler = self.accelerator.scaler
            facts = {
                "identity": self.identity,
                "run": asdict(run),
                "scaler": None if scaler is None else scaler.state_dict(),
            }
            checkpoint = Checkpoint(run.updates, self.plain_model.state_dict(), tensors, facts)
            save_checkpoint(self.folder / CHECKPOINTS, checkpoint, keep=self.keep)
        self.accelerator.wait_for_everyone()

    def save_best(self) -> None:
        """Write the weights as they are now, as the best so far."""
        if self.accelerator.is_main_process:
            save_weights(self.folder / BEST, self.plain_model.state_dict())

    def measure(self, evaluate: Callable[[nn.Module], dict[str, float]]) -> dict[str, float]:
        """Evaluate on the first process and tell the others; training's random numbers stay untouched."""
        from accelerate.utils import broadcast_object_list

        measures = [{}]
        if self.accelerator.is_main_process:
            self.model.eval()
            with torch.random.fork_rng(), torch.no_grad():
                measures = [evaluate(self.plain_model)]
            self.model.train()
        broadcast_object_list(measures)
        return measures[0]

    def finish(self) -> None:
        """Close TensorBoard's files and take everything off the model that was put around it."""
        for tracker in self.accelerator.trackers:
            tracker.finish()
        self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)

    def _random(self) -> dict[str, torch.Tensor]:
        states = {"cpu": torch.get_rng_state()}
        if self.accelerator.device.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state(self.accelerator.device)
        return states

    def _set_random(self, tensors: dict[str, torch.Tensor]) -> None:
        rank = self.accelerator.process_index
        torch.set_rng_state(tensors[f"random.{rank}.cpu"])
        if self.accelerator.device.type == "cuda":
            torch.cuda.set_rng_state(tensors[f"random.{rank}.cuda"], self.accelerator.device)
