"""Where data comes from: a local folder first, then its public source with a checksum, kept in a cache (chapter 10).

pooch does the transfer (temporary file beside its target, checksum, then one
rename; retries; the system's cache folder). What it lacks and this module
adds: the folder of `TUTORIAL_LIB_DATA`, git's checksum, and one sentence for
a machine without internet.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

DATA_VARIABLE = "TUTORIAL_LIB_DATA"
TEMPORARY = "tmp" + 8 * "[a-z0-9_]"  # what tempfile, and so pooch, calls a file
DAY = 86_400.0  # seconds


class DataUnavailable(ValueError):
    """Data is neither in the local folder nor to be had from its public source; the message says what to do."""


@dataclass(frozen=True)
class PublicFile:
    """One file that anybody may download.

    Attributes:
        title:  what a person calls it.
        folder: its folder below `TUTORIAL_LIB_DATA`, and below the cache.
        name:   its file name.
        url:    its public address.
        checksum: "sha256:..." of the bytes, or "git-blob:..." as `git hash-object` gives it.
        licence: under which it may be used.
    """

    title: str
    folder: str
    name: str
    url: str
    checksum: str
    licence: str


def data_folder() -> Path | None:
    """Return the folder that `TUTORIAL_LIB_DATA` names, None if it names none.

    Raises:
        DataUnavailable: if it names something that is not a folder.
    """
    named = os.environ.get(DATA_VARIABLE, "").strip()
    if not named:
        return None
    folder = Path(os.path.expanduser(named))  # pathlib's own raises RuntimeError for an unknown user
    if not folder.is_dir():
        raise DataUnavailable(f"{DATA_VARIABLE} must name a folder, got {named!r}")
    return folder


def local_file(folder: str, *names: str) -> Path | None:
    """Return the first of these files that the local folder has, None if it has none.

    Raises:
        DataUnavailable: if `TUTORIAL_LIB_DATA` names something that is not a folder.
    """
    root = data_folder()
    candidates = [] if root is None else [root / folder / name for name in names]
    return next((path for path in candidates if path.is_file()), None)


def file_checksum(path: Path, kind: str) -> str:
    """Compute "sha256:..." or "git-blob:..." of a file.

    A git blob's id is the SHA-1 of "blob ", the size in bytes as decimal digits,
    a zero byte, and the content (Pro Git, 2nd edition, section 10.2).

    Raises:
        ValueError: if the kind is another.
    """
    if kind == "git-blob":
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    elif kind == "sha256":
        digest = hashlib.sha256()
    else:
        raise ValueError(f"checksum must start with 'sha256:' or 'git-blob:', got {kind!r}")
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return f"{kind}:{digest.hexdigest()}"


def is_intact(path: Path, checksum: str) -> bool:
    """Say whether a file has this checksum; a file that is not there has not."""
    return path.is_file() and file_checksum(path, checksum.split(":")[0]) == checksum


def fetch(file: PublicFile, *, cache: Path | None = None, retries: int = 2, timeout: float = 20.0) -> Path:
    """Return the path of an intact copy, from the cache if it has one, else from the public source.

    A copy that is damaged is fetched again. An interrupted download leaves nothing
    under the file's name: the bytes go to a temporary file and are renamed only
    after their checksum was right. What a killed one has left of that is removed a day
    later, when it can no longer belong to another process that is still downloading.

    Args:
        file:  what to fetch.
        cache: folder of the cache; the system's own for tutorial-lib if left out.
        retries: how often to try again after a failure.
        timeout: seconds of silence after which a try has failed.

    Raises:
        DataUnavailable: if no try gave the right bytes.
    """
    import pooch

    root = Path(pooch.os_cache("tutorial-lib") if cache is None else cache) / file.folder
    target = root / file.name
    _remove_leftovers(root)
    if is_intact(target, file.checksum):
        return target

    def download(url: str, output: str, caller: object) -> None:
        pooch.HTTPDownloader(timeout=timeout)(url, output, caller)
        found = file_checksum(Path(output), file.checksum.split(":")[0])
        if found != file.checksum:  # here, in the temporary file, because pooch does not know git's checksum
            raise ValueError(f"the download's checksum is {found}, expected {file.checksum}")

    pooch.get_logger().setLevel("WARNING")  # it would tell of each download on stderr
    try:
        target.unlink(missing_ok=True)  # damaged, or not there
        keeper = pooch.create(
            root, base_url="", registry={file.name: None}, urls={file.name: file.url}, retry_if_failed=retries
        )
        keeper.fetch(file.name, downloader=download)
    except (ValueError, OSError) as error:  # requests' errors are OSErrors
        raise DataUnavailable(f"{_failure(file, error)}; {how_to_place(file.folder, file.name)}") from error
    return target


def _remove_leftovers(folder: Path) -> None:
    with contextlib.suppress(OSError):  # another process may be removing them, or the cache be read-only
        for path in folder.glob(TEMPORARY):
            if time.time() - path.stat().st_mtime > DAY:
                path.unlink()


def how_to_place(folder: str, *names: str) -> str:
    """Say, as the second half of a sentence, where a file can be put by hand."""
    wanted = " or ".join(names)
    return (
        f"go online once, or put {wanted} into a folder {folder}/ "
        f"and set {DATA_VARIABLE} to the folder that holds {folder}/"
    )


def _failure(file: PublicFile, error: Exception) -> str:
    reason = str(error) if "checksum" in str(error) else type(error).__name__
    return f"{file.title} could not be downloaded from {file.url} ({reason})"
