"""The training loop: one program for a processor, a graphics card or many processes, and resumable (chapter 10).

Hugging Face Accelerate starts the processes, wraps the model, chooses the
precision and scales the loss; this module decides what an update is: one
batch, the same whatever number of processes and pieces it is computed in.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tutorial_lib.batches import endless_batches
from tutorial_lib.run_state import Run, RunState
from tutorial_lib.schedules import SCHEDULES, learning_rate
from tutorial_lib.seeding import seeded
from tutorial_lib.validation import require_choice, require_positive, require_probability

if TYPE_CHECKING:
    from accelerate import Accelerator

PRECISIONS = ("no", "bf16", "fp16")


@dataclass(frozen=True)
class TrainConfig:
    """Everything that decides what a run learns, beside its model and its data.

    Attributes:
        updates: how often the weights change.
        batch_size: rows in one update, over all processes and pieces together.
        accumulation: pieces in which one process computes its share, to save memory.
        schedule, peak, warmup: of the learning rate, see `learning_rate`.
        label_smoothing: share of the target that is spread over all ids (Vaswani et al. 2017, section 5.4).
        clip: largest norm of the gradient; 0 for no limit.
        weight_decay: of AdamW (Loshchilov & Hutter 2019).
        betas, eps: of Adam (Vaswani et al. 2017, section 5.3).
        precision: "no", "bf16" or "fp16".
        seed: of the order of the data and of dropout.
        evaluate_every, save_every: updates between evaluations, and between checkpoints.
        keep: number of checkpoints that stay.

    Raises:
        ValueError: if a number or name is impossible.
    """

    updates: int = 200
    batch_size: int = 32
    accumulation: int = 1
    schedule: str = "cosine"
    peak: float = 1e-3
    warmup: int = 20
    label_smoothing: float = 0.0
    clip: float = 1.0
    weight_decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    precision: str = "no"
    seed: int = 0
    evaluate_every: int = 100
    save_every: int = 100
    keep: int = 2

    def __post_init__(self) -> None:
        require_positive(
            updates=self.updates,
            batch_size=self.batch_size,
            accumulation=self.accumulation,
            evaluate_every=self.evaluate_every,
            save_every=self.save_every,
            keep=self.keep,
        )
        require_choice("schedule", self.schedule, SCHEDULES)
        require_choice("precision", self.precision, PRECISIONS)
        require_probability("label_smoothing", self.label_smoothing)
        if self.clip < 0 or self.weight_decay < 0:
            raise ValueError(
                f"clip and weight_decay must not be negative, got {self.clip} and {self.weight_decay}"
            )
        learning_rate(1, self.updates, schedule=self.schedule, peak=self.peak, warmup=self.warmup)

    def identity(self) -> dict:
        """Return what a resumed run must have in common with the one that was stopped."""
        return {name: value for name, value in asdict(self).items() if name not in ("save_every", "keep")}


class Task(Protocol):
    """What a model learns from: rows of data, and a loss that is a sum over targets."""

    lengths: Sequence[int]

    def fingerprint(self) -> str:
        """Return a checksum of the data."""

    def weight(self, rows: Sequence[int]) -> int:
        """Return the number of targets in these rows."""

    def loss(
        self, model: nn.Module, rows: Sequence[int], device: torch.device, smoothing: float = 0.0
    ) -> Tensor:
        """Return the loss of these rows, summed over their targets."""


def cross_entropy_sum(
    logits: Tensor, targets: Tensor, *, smoothing: float = 0.0, ignore: int = -100
) -> Tensor:
    """Cross-entropy, summed over the targets that count.

    With smoothing e the target is 1 - e on the right id plus e / V on every id,
    the right one included (Szegedy et al. 2016, section 7): torch's own.

    Args:
        logits:  (..., V)
        targets: (...), ids.
        smoothing: e
        ignore:  an id that is no target, such as padding.
    """
    return F.cross_entropy(
        logits.flatten(0, -2),  # (B, T, V) -> (B T, V)
        targets.flatten(),
        ignore_index=ignore,
        label_smoothing=smoothing,
        reduction="sum",
    )


def shares(rows: Sequence[int], parts: int) -> list[list[int]]:
    """Deal the rows of a batch out like cards, so that long and short ones are spread evenly."""
    return [list(rows[part::parts]) for part in range(parts)]


def accumulate_gradients(
    accelerator: Accelerator, model: nn.Module, task: Task, rows: Sequence[int], config: TrainConfig
) -> Tensor:
    """Add the gradient of the batch's mean loss; return that loss.

    Each of the processes times pieces computes the summed loss of its rows, divided
    by the number of targets of the whole batch: so every target counts the same,
    in whichever piece it stands. (A mean of the pieces' means would not.)
    """
    world, rank = accelerator.num_processes, accelerator.process_index
    total = task.weight(rows)
    own = shares(rows, world * config.accumulation)[rank::world]
    seen = torch.zeros((), device=accelerator.device)
    for number, piece in enumerate(own, start=1):
        # Processes exchange gradients in the last piece only, and all of them must take part in it.
        wait = contextlib.nullcontext() if number == len(own) else accelerator.no_sync(model)
        with wait:
            loss = task.loss(model, piece or rows[:1], accelerator.device, config.label_smoothing)
            loss = loss * (bool(piece) / total)
            accelerator.backward(loss * world)  # they average, where a sum is meant
        seen = seen + loss.detach()
    return accelerator.reduce(seen, "sum")


def train(
    model: nn.Module,
    task: Task,
    config: TrainConfig,
    folder: Path,
    *,
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
    progress: bool = False,
    tensorboard: bool = False,
    cpu: bool = False,
) -> Run:
    """Train a model in place; called again after an interruption, go on from the last checkpoint.

    A run that was killed at any moment and resumed ends with the same weights, bit
    for bit on a processor with one thread, as one that was not: a checkpoint holds
    the weights, the optimizer's state, the states of random numbers and the number
    of updates, which decides the order of the data.

    Args:
        model:  changed in place.
        task:   the data and the loss.
        config: see `TrainConfig`.
        folder: for checkpoints, the best weights and TensorBoard's files.
        evaluate: measures the model in evaluation mode, on the first process; "loss" chooses the best weights.
        progress: show a bar on the first process.
        tensorboard: write measures for TensorBoard.
        cpu:    leave graphics cards alone.

    Returns:
        see `Run`.

    Raises:
        ValueError: if the folder holds another run, or the loss is no longer a number.
    """
    from accelerate import Accelerator
    from tqdm import tqdm

    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision=config.precision,
        log_with="tensorboard" if tensorboard else None,
        project_dir=str(folder),
    )
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=config.peak,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
    )
    wrapped, optimizer = accelerator.prepare(model, optimizer)
    identity = {**config.identity(), "data": task.fingerprint(), "processes": accelerator.num_processes}
    state = RunState(accelerator, wrapped, optimizer, folder, identity, keep=config.keep)
    with seeded(config.seed, accelerator.process_index):
        run = state.resume()
        if tensorboard:
            accelerator.init_trackers("", init_kwargs={"tensorboard": {"purge_step": run.updates + 1}})
        batches = endless_batches(task.lengths, config.batch_size, seed=config.seed, done=run.updates)
        hidden = not (progress and accelerator.is_main_process)
        bar = tqdm(total=config.updates, initial=run.updates, disable=hidden, unit="update")
        began = time.perf_counter() - run.seconds
        wrapped.train()
        for update in range(run.updates + 1, config.updates + 1):
            rate = learning_rate(
                update, config.updates, schedule=config.schedule, peak=config.peak, warmup=config.warmup
            )
            _, rows = next(batches)
            loss = _update(accelerator, wrapped, optimizer, task, rows, config, rate)
            if not math.isfinite(loss):
                raise ValueError(f"the loss of update {update} is {loss}: try a smaller peak or more warm-up")
            run.updates, run.seconds = update, time.perf_counter() - began
            run.losses.append(loss)
            bar.set_postfix(loss=f"{loss:.3f}", refresh=False)
            bar.update()
            accelerator.log({"train/loss": loss, "train/rate": rate}, step=update)
            last = update == config.updates
            if last or update % config.evaluate_every == 0:
                measures = {} if evaluate is None else state.measure(evaluate)
                accelerator.log({f"valid/{name}": value for name, value in measures.items()}, step=update)
                _remember(run, {"rate": rate, **measures}, state)
            if last or update % config.save_every == 0:
                state.save(run)
        bar.close()
    state.finish()
    return run


def _update(accelerator, model, optimizer, task, rows, config: TrainConfig, rate: float) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = accumulate_gradients(accelerator, model, task, rows, config).item()
    if config.clip:
        accelerator.clip_grad_norm_(model.parameters(), config.clip)
    optimizer.step()
    optimizer.zero_grad()
    return loss


def _remember(run: Run, measures: dict, state: RunState) -> None:
    entry = {"update": run.updates, "train_loss": sum(run.losses) / len(run.losses), **measures}
    run.history.append(entry)
    run.losses = []
    if "loss" in entry and entry["loss"] < run.best.get("loss", math.inf):
        run.best = entry
        state.save_best()
