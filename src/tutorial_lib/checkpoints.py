"""Checkpoints that a crash cannot spoil: written aside, forced to the disk, renamed; no pickle in them (chapter 10)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

PREFIX, ASIDE = "update-", ".aside-"
MODEL, STATE, FACTS = "model.safetensors", "state.safetensors", "facts.json"


@dataclass(frozen=True)
class Checkpoint:
    """A run as it was after one of its updates.

    Attributes:
        update: number of updates done.
        model:  the weights, by name.
        state:  the optimizer's tensors and the states of random numbers, by name.
        facts:  everything that is no tensor, as JSON can hold it.
    """

    update: int
    model: dict[str, Tensor]
    state: dict[str, Tensor]
    facts: dict


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that it has either all of its new content or all of its old, whatever happens."""
    aside = path.with_name(f"{ASIDE}{path.name}")
    _write_through(aside, data)
    os.replace(aside, path)
    _sync_folder(path.parent)


def write_json(path: Path, content: dict | list) -> None:
    """Write JSON for people and programs, atomically."""
    write_atomically(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode("utf-8"))


def save_weights(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write tensors as safetensors, atomically; tied weights are written under each of their names."""
    write_atomically(path, _packed(tensors))


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read tensors from safetensors: numbers and names, nothing that could run.

    Raises:
        ValueError: if there is no such file or it is damaged.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from error


def fit_weights(model: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Give a model these weights.

    Raises:
        ValueError: if names or shapes are not the model's, which then stays as it is; the message names the first.
    """
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != wanted:
        odd = min(name for name in wanted | found if wanted.get(name) != found.get(name))
        raise ValueError(
            f"{odd} must have the shape {wanted.get(odd, '(none)')}, got {found.get(odd, '(none)')}"
        )
    model.load_state_dict(tensors)


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, keep: int = 2) -> Path:
    """Write a checkpoint, then remove all but the newest `keep`; later ones, which must be damaged, go first.

    The files go into a folder whose name no reader looks at; they and the folder
    are forced to the disk; one rename makes them a checkpoint. Whoever stops the
    program at any moment finds the checkpoints before this one, or this one too.

    Returns:
        the checkpoint's folder.

    Raises:
        ValueError: if none would be kept.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(f"{ASIDE}*"):  # of a run that was stopped while it wrote
        shutil.rmtree(left)
    target = folder / f"{PREFIX}{checkpoint.update:08d}"
    aside = folder / f"{ASIDE}{target.name}"
    aside.mkdir()
    files = {MODEL: _packed(checkpoint.model), STATE: _packed(checkpoint.state)}
    content = {
        "update": checkpoint.update,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "facts": checkpoint.facts,
    }
    own = {"sha256": _json_checksum(content), "content": content}
    files[FACTS] = json.dumps(own, ensure_ascii=False).encode("utf-8")
    for name, data in files.items():
        _write_through(aside / name, data)
    _sync_folder(aside)
    for path in _found(folder):
        if _update(path) >= checkpoint.update:  # damaged, and passed over when this run resumed
            shutil.rmtree(path)
    os.rename(aside, target)
    _sync_folder(folder)
    for old in _found(folder)[keep:]:
        shutil.rmtree(old)
    return target


def load_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """Read the newest intact checkpoint.

    Returns:
        the checkpoint, None if there is none; and what was wrong with newer ones that were passed over.
    """
    problems = []
    for path in _found(folder):
        try:
            return _read(path), problems
        except ValueError as error:
            problems.append(str(error))
    return None, problems


def _found(folder: Path) -> list[Path]:
    paths = (path for path in folder.glob(f"{PREFIX}*") if path.is_dir() and _update(path) >= 0)
    return sorted(paths, key=_update, reverse=True)


def _update(path: Path) -> int:
    number = path.name.removeprefix(PREFIX)
    return int(number) if number.isdecimal() else -1  # somebody's copy, such as "update-00000012 old"


def _read(path: Path) -> Checkpoint:
    try:
        own = json.loads((path / FACTS).read_text(encoding="utf-8"))
        content = own["content"]
        if _json_checksum(content) != own["sha256"]:
            raise ValueError(f"{path / FACTS}: its checksum is not the one it was written with")
        for name in (MODEL, STATE):
            expected = content["sha256"][name]
            if hashlib.sha256((path / name).read_bytes()).hexdigest() != expected:
                raise ValueError(f"{path / name}: its checksum is not the one it was written with")
        return Checkpoint(
            content["update"], load_weights(path / MODEL), load_weights(path / STATE), content["facts"]
        )
    except (OSError, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({type(error).__name__}: {error})") from error


def _json_checksum(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _packed(tensors: dict[str, Tensor]) -> bytes:
    from safetensors.torch import save

    return save({name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()})


def _write_through(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # other systems cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def optimizer_tensors(state: dict) -> dict[str, Tensor]:
    """Flatten an optimizer's state: {0: {"exp_avg": ...}} -> {"optimizer.0.exp_avg": ...}."""
    return {
        f"optimizer.{number}.{name}": torch.as_tensor(value)
        for number, values in state["state"].items()
        for name, value in values.items()
    }


def optimizer_state(tensors: dict[str, Tensor], state: dict) -> dict:
    """Undo `optimizer_tensors`; settings such as the learning rate come from `state`, as they are now."""
    values: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".", 2)
            values.setdefault(int(number), {})[name] = tensor
    return {**state, "state": values}
