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
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tutorial_lib.batches import endless_batches
from tutorial_lib.run_state import Run, RunState, alone_in
from tutorial_lib.schedules import learning_rate
from tutorial_lib.seeding import seeded
from tutorial_lib.settings import TrainConfig

if TYPE_CHECKING:
    from accelerate import Accelerator


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

    Raises:
        ValueError: if the shapes do not fit.
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"logits must have the targets' shape and V behind it, got {tuple(logits.shape)} and {tuple(targets.shape)}"
        )
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
    about: dict | None = None,
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
        about:  what else makes this run another one, such as the model's settings; as JSON can hold it.
        progress: show a bar on the first process.
        tensorboard: write measures for TensorBoard.
        cpu:    leave graphics cards alone.

    Returns:
        see `Run`.

    Raises:
        ValueError: if the folder holds another run or another process trains in it, if the loss is no longer a
            number, or if this process has trained with another precision or on a graphics card that is now to
            be left alone.
        OSError: if the folder cannot be written.
    """
    from accelerate import Accelerator
    from tqdm import tqdm

    _require_same_process_wide(config.precision, cpu)
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
    identity = {
        **config.identity(),
        **(about or {}),
        "data": task.fingerprint(),
        "processes": accelerator.num_processes,
        # Each kind of device draws its own random numbers: the run would not end as one that nobody stopped.
        "device": accelerator.device.type,
    }
    state = RunState(accelerator, wrapped, optimizer, folder, identity, keep=config.keep)
    # The first process alone writes.
    alone = alone_in(folder) if accelerator.is_main_process else contextlib.nullcontext()
    with alone, seeded(config.seed, accelerator.process_index):
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


def _require_same_process_wide(precision: str, cpu: bool) -> None:
    from accelerate.state import AcceleratorState, is_initialized

    # Accelerate fixes both at the first run of a process and has no way back that it calls public.
    if not is_initialized():
        return
    before = AcceleratorState()
    if precision != before.mixed_precision:
        raise ValueError(
            f"precision must be {before.mixed_precision!r} as in the first run of this Python process, "
            f"got {precision!r}; start Python again"
        )
    if cpu and before.device.type != "cpu":
        raise ValueError(
            f"cpu must be False, for the first run of this Python process used {before.device}; start Python again"
        )


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
    if not math.isfinite(entry.get("loss", 0.0)):
        raise ValueError(
            f"the loss of the evaluation after update {run.updates} is {entry['loss']}: "
            "try a smaller peak or more warm-up"
        )
    if "loss" in entry and entry["loss"] < run.best.get("loss", math.inf):
        run.best = entry
        state.save_best()
