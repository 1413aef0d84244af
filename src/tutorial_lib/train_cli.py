"""`tutorial-lib train translation|classifier|lm`: flags, a configuration file, and a run that can be interrupted."""

from __future__ import annotations

import argparse
import importlib.util
import shlex
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

from tutorial_lib.recipes import RECIPES
from tutorial_lib.run import perform
from tutorial_lib.schedules import SCHEDULES
from tutorial_lib.settings import AT_BAD_ROWS, PRECISIONS, SOURCES, Settings, TrainConfig

NEEDED = ("accelerate", "safetensors", "tqdm", "sacrebleu")
DEFAULTS = {
    "translation": {
        "data": "toy", "vocabulary": 350, "updates": 200, "batch_size": 64, "peak": 3e-3, "warmup": 60,
        "schedule": "vaswani", "label_smoothing": 0.1,
    },
    "classifier": {"data": "toy", "vocabulary": 200, "updates": 150, "batch_size": 64, "peak": 2e-3, "warmup": 30},
    "lm": {"data": "book", "vocabulary": 1000, "updates": 300, "batch_size": 16, "peak": 3e-3, "warmup": 30},
}  # fmt: skip
ONLY = {
    "columns": ("translation", "classifier"), "labels": ("classifier",), "source": ("translation",),
    "block": ("lm",), "max_length": ("translation",), "label_smoothing": ("translation", "classifier"),
}  # fmt: skip
HELP = {
    "data": "a name ({names}) or the path of a file ({file})",
    "on_error": "at a bad row of the data: raise stops and names it, skip leaves it out and counts it; "
    "auto is skip for nsmc, whose files have empty rows, and raise for others",
    "limit": "use at most so many training rows, 0 for all",
    "valid": "rows (7) or share (0.1) for choosing the best weights",
    "test": "rows (7) or share (0.1) for the measures at the end",
    "columns": "columns of the file, counted from 0",
    "labels": "labels as the file writes them, strings in a configuration file; a header line needs --on-error skip",
    "source": "language to translate from (Tatoeba)",
    "vocabulary": "number of SentencePiece's pieces",
    "width": "width of the model, D",
    "heads": "heads of attention, H",
    "hidden": "width inside the feed-forward network",
    "layers": "layers of each stack",
    "dropout": "probability of dropping a number while training",
    "norm": "where to normalise",
    "block": "longest context",
    "max_length": "longest translation, in pieces",
    "seed": "of the split, the first weights, the order of the data and dropout",
    "updates": "how often the weights change",
    "batch_size": "rows in one update, over all processes",
    "accumulation": "pieces in which a process computes its share of a batch, to save memory",
    "schedule": "of the learning rate after its warm-up",
    "peak": "highest learning rate",
    "warmup": "updates until the peak; without it no more than there are updates",
    "label_smoothing": "share of the target spread over all ids",
    "clip": "largest norm of the gradient, 0 for no limit",
    "weight_decay": "of AdamW",
    "precision": "number format of the forward pass",
    "evaluate_every": "updates between evaluations",
    "save_every": "updates between checkpoints",
    "keep": "checkpoints that stay",
}
NAMES = {
    "translation": ("toy, tatoeba", "two columns: source, target"),
    "classifier": ("toy, nsmc, nsmc-small, english", "two columns: text, label"),
    "lm": ("book", "a sentence a line"),
}
CHOICES = {
    "on_error": AT_BAD_ROWS, "norm": ("post", "pre"), "source": SOURCES,
    "schedule": SCHEDULES, "precision": PRECISIONS,
}  # fmt: skip
EXAMPLES = """examples:
  tutorial-lib train {job} --folder runs/first
  tutorial-lib train {job} --folder runs/first            (the same again: goes on where it was stopped)
  tutorial-lib train {job} --folder runs/wide --width 128 --updates 1000 --seed 1
  tutorial-lib train {job} --folder runs/mine --config mine.toml
  torchrun --standalone --nproc_per_node 2 -m tutorial_lib.cli train {job} --cpu --folder runs/two

a configuration file holds the same names, in TOML; a flag wins over it:
  data = "{data}"
  width = 128
  label-smoothing = 0.1

in the folder afterwards: results.json, best.safetensors, pieces.model, checkpoints/ (and TensorBoard's files)
"""


def share(text: str) -> float | int:
    """Read a number of rows ("7") or a share ("0.1")."""
    return int(text) if text.isdigit() else float(text)


def options(job: str) -> dict[str, object]:
    """Return every setting of a job with its default."""
    both = {f.name: f.default for cls in (Settings, TrainConfig) for f in fields(cls)}
    both = {name: value for name, value in both.items() if name in HELP and job in ONLY.get(name, (job,))}
    return {**both, **DEFAULTS[job]} if job in DEFAULTS else both


def add_job(commands, job: str, what: str) -> None:
    """Describe one job's flags."""
    one = commands.add_parser(
        job,
        help=what,
        description=what,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=EXAMPLES.format(job=job, data=NAMES[job][0].split(", ")[-1]),
    )
    one.add_argument(
        "--folder", type=Path, required=True, help="where the run lives; the same folder resumes it"
    )
    one.add_argument("--config", type=Path, help="TOML file with settings")
    one.add_argument("--cpu", action="store_true", help="leave graphics cards alone")
    one.add_argument("--tensorboard", action="store_true", help="write measures for TensorBoard")
    one.add_argument("--quiet", action="store_true", help="no progress bar")
    for name, default in options(job).items():
        text = HELP[name].format(names=NAMES[job][0], file=NAMES[job][1])
        several = isinstance(default, tuple)
        shown = " ".join(map(str, default)) if several else default
        kind = share if name in ("valid", "test") else type(default[0] if several else default)
        extra = {"nargs": "+"} if several else {}
        if name in CHOICES:
            extra["choices"] = CHOICES[name]
        one.add_argument(
            f"--{name.replace('_', '-')}",
            type=kind,
            default=argparse.SUPPRESS,
            help=f"{text} (default: {shown})",
            **extra,
        )


def parser() -> argparse.ArgumentParser:
    """Build the parser of `tutorial-lib train`."""
    top = argparse.ArgumentParser(prog="tutorial-lib train", description="Train one of the book's models.")
    commands = top.add_subparsers(dest="job", required=True)
    add_job(commands, "translation", "train an encoder-decoder on sentence pairs; BLEU and chrF at the end")
    add_job(
        commands,
        "classifier",
        "train an encoder on labelled texts; accuracy beside a bag of words at the end",
    )
    add_job(commands, "lm", "train a decoder on running text; perplexity at the end")
    return top


def from_file(path: Path, job: str) -> dict[str, object]:
    """Read a configuration file.

    Raises:
        ValueError: if it cannot be read, or a name or the kind of a value is not a setting's.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from error
    known, settings = options(job), {}
    for written, value in found.items():
        name = written.replace("-", "_")
        if name not in known:
            raise ValueError(f"{path}: {written!r} is no setting of {job}; there are {', '.join(known)}")
        default = list(known[name]) if isinstance(known[name], tuple) else known[name]
        if not _alike(value, default):
            raise ValueError(f"{path}: {written} must be like {default!r}, got {value!r}")
        if name in CHOICES and value not in CHOICES[name]:
            raise ValueError(f"{path}: {written} must be one of {', '.join(CHOICES[name])}, got {value!r}")
        settings[name] = tuple(value) if isinstance(value, list) else value
    return settings


def _alike(value: object, default: object) -> bool:
    if isinstance(default, list):
        return isinstance(value, list) and all(_alike(one, default[0]) for one in value)
    return type(value) in ((float, int) if isinstance(default, float) else (type(default),))


def chosen(arguments: argparse.Namespace) -> tuple[Settings, TrainConfig]:
    """Put defaults, configuration file and flags together; the later win.

    Raises:
        ValueError: if a setting is impossible.
    """
    given = {name: value for name, value in vars(arguments).items() if name in HELP}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    filed = from_file(arguments.config, arguments.job) if arguments.config else {}
    values = {**options(arguments.job), **filed, **given}
    if "warmup" not in filed | given:
        values["warmup"] = min(values["warmup"], values["updates"])
    return tuple(
        cls(**{f.name: values[f.name] for f in fields(cls) if f.name in values})
        for cls in (Settings, TrainConfig)
    )


def main(argv: list[str]) -> int:
    """Run `tutorial-lib train` with these arguments; return the exit status."""
    arguments = parser().parse_args(argv)
    needed = [*NEEDED, *(["tensorboard"] if arguments.tensorboard else [])]
    if missing := [name for name in needed if importlib.util.find_spec(name) is None]:
        sys.stderr.write(f"{', '.join(missing)} missing: pip install -e '.[train]' in a copy of the book\n")
        return 2
    command = shlex.join(["tutorial-lib", "train", *argv])
    try:
        settings, config = chosen(arguments)
        lines = perform(
            arguments.job,
            RECIPES[arguments.job],
            settings,
            config,
            arguments.folder,
            command=command,
            progress=not arguments.quiet,
            tensorboard=arguments.tensorboard,
            cpu=arguments.cpu,
        )
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        clash = isinstance(error, (FileExistsError, NotADirectoryError))
        why = "a file is where a folder must be" if clash else error.strerror or error
        sys.stderr.write(f"{error.filename or arguments.folder}: cannot be used ({why})\n")
        return 2
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0
