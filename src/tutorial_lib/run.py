"""One whole training run: prepare, train, measure on the test rows, write down how it came about (chapter 10)."""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import sentencepiece
import torch

from tutorial_lib.checkpoints import fit_weights, load_weights, write_atomically, write_json
from tutorial_lib.decoder_only import DecoderOnly
from tutorial_lib.recipes import Prepared, build_model
from tutorial_lib.run_state import BEST, Run
from tutorial_lib.settings import Settings, TrainConfig
from tutorial_lib.text_classifier import TextClassifier
from tutorial_lib.training import train
from tutorial_lib.transformer import Transformer

RESULTS, PIECES = "results.json", "pieces.model"
# Checksums stand for the rows, whatever file they came from; how long a translation may be matters to the report alone.
NOT_ASKED = ("data", "on_error", "max_length")
PACKAGES = ("tutorial-lib", "torch", "accelerate", "sentencepiece", "sacrebleu", "numpy")


def perform(
    job: str,
    recipe: Callable[[Settings], Prepared],
    settings: Settings,
    config: TrainConfig,
    folder: Path,
    *,
    command: str,
    progress: bool = False,
    tensorboard: bool = False,
    cpu: bool = False,
) -> list[str]:
    """Train, measure the best weights on the test rows, and write results.json.

    Args:
        job:    name of the run's kind.
        recipe: prepares model and data from the settings.
        settings, config: what to learn and how.
        folder: of the run; the same folder again resumes it.
        command: as a person would type it, for the results file.
        progress, tensorboard, cpu: as in `train`.

    Returns:
        lines for a person to read; none on processes other than the first.

    Raises:
        ValueError: if data or settings cannot be used, the folder holds another run, or one is writing there.
        OSError: if the folder cannot be written.
    """
    from accelerate import PartialState

    if config.seed != settings.seed:
        raise ValueError(
            f"settings and config must have the same seed, got {settings.seed} and {config.seed}"
        )
    prepared = recipe(settings)
    process = PartialState(cpu=cpu)
    run = train(
        prepared.model,
        prepared.task,
        config,
        folder,
        evaluate=prepared.evaluate,
        about={
            "job": job,
            **{name: value for name, value in asdict(settings).items() if name not in NOT_ASKED},
            "held_out": prepared.held_out,
        },
        progress=progress,
        tensorboard=tensorboard,
        cpu=cpu,
    )
    lines = []
    if process.is_main_process:
        # Not before: the folder may have turned out to hold another run.
        write_atomically(folder / PIECES, prepared.pieces.serialized_model_proto())
        prepared.model.load_state_dict(load_weights(folder / BEST))
        prepared.model.eval()
        measures = prepared.report(prepared.model)
        results = {
            "job": job,
            "command": command,
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
            "seed": config.seed,
            "machine": machine(process.num_processes, process.device),
            "versions": versions(),
            "seconds": round(run.seconds, 1),
            "data": prepared.about,
            "settings": asdict(settings),
            "training": asdict(config),
            "history": run.history,
            "best": run.best,
            "test": measures,
            "problems": run.problems,
        }
        write_json(folder / RESULTS, results)
        lines = summary(prepared, run, measures, folder, process.num_processes)
    process.wait_for_everyone()
    return lines


def load_run(
    folder: Path | str,
) -> tuple[Transformer | TextClassifier | DecoderOnly, sentencepiece.SentencePieceProcessor]:
    """Return what a finished run has learned: the model with its best weights, and its pieces.

    The data are not needed; what the folder holds is numbers and text, nothing that could run.

    Args:
        folder: of the run, as `perform` left it.

    Returns:
        the model in evaluation mode, on the CPU, and the vocabulary that it reads.

    Raises:
        ValueError: if the run is not finished, a file is damaged, or the files do not fit each other.
    """
    folder = Path(folder)
    if not (folder / RESULTS).exists():
        raise ValueError(f"{folder}: expected a finished run, got no {RESULTS} there")
    try:
        results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        job, settings = results["job"], Settings(**results["settings"])
        pieces = sentencepiece.SentencePieceProcessor()
        pieces.LoadFromSerializedProto((folder / PIECES).read_bytes())
        model, weights = build_model(job, settings, pieces.vocab_size()), load_weights(folder / BEST)
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{folder}: the run cannot be loaded ({error})") from error
    try:
        fit_weights(model, weights)
    except ValueError as error:
        raise ValueError(
            f"{folder}: the weights do not fit what {RESULTS} and {PIECES} describe: {error}"
        ) from error
    return model.eval(), pieces


def machine(processes: int, device: torch.device) -> dict[str, object]:
    """Describe what computes."""
    card = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    return {
        "system": platform.system(),
        "processor": processor(),
        "device": card or str(device),
        "processes": processes,
        "threads": torch.get_num_threads(),
    }


def processor() -> str:
    """Name the processor."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a result."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def summary(prepared: Prepared, run: Run, measures: dict, folder: Path, processes: int) -> list[str]:
    """Say in a few lines what came out."""
    about = prepared.about
    rows = ", ".join(f"{count} {part}" for part, count in about["rows"].items())
    left_out = ", ".join(f"{count} {kind}" for kind, count in about["skipped"].items() if count) or "none"
    # A launcher that was asked for two may start one and say nothing.
    crew = "1 process" if processes == 1 else f"{processes} processes"
    lines = [
        *(f"passed over: {problem}" for problem in run.problems),
        f"data: {about['origin']}; rows: {rows}; left out: {left_out}",
        f"{about['parameters']} parameters, {run.updates} updates, {run.seconds:.0f} s, {crew}; "
        f"best weights after update {run.best['update']}: validation loss {run.best['loss']:.3f}",
    ]
    for name, value in measures.items():
        if isinstance(value, float):
            lines.append(f"test {name.replace('_', ' ')}: {value:.3f}")
        elif isinstance(value, str):
            lines.append(f"  {value}")
    for example in measures.get("examples", [])[:3]:
        lines.append(f"  {example['source']} -> {example['translation']} (reference: {example['reference']})")
    return [*lines, f"written: {folder / RESULTS}"]
