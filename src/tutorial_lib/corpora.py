"""Real texts to train on: sentence pairs, rated reviews, plain text, from a local folder or their source (chapter 10)."""

from __future__ import annotations

import io
import math
import tarfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from tutorial_lib.downloads import (
    DataUnavailable,
    PublicFile,
    fetch,
    file_checksum,
    local_file,
)
from tutorial_lib.reading import RowError, fields, filled, has_visible, read_bytes, read_rows
from tutorial_lib.validation import require_choice

Row = TypeVar("Row")


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Labelled(NamedTuple):
    """A text and its class."""

    text: str
    label: int


@dataclass(frozen=True)
class Corpus(Generic[Row]):
    """Rows of one file, and what one has to know about them.

    Attributes:
        rows:   `Pair`s, `Labelled`s or strings, in the file's order.
        origin: which file, and which edition of it.
        licence: under which the text may be used; "" for files of your own.
        skipped: how many rows were left out, by kind.
    """

    rows: list[Row]
    origin: str
    licence: str = ""
    skipped: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)


NSMC_PAGE = "https://raw.githubusercontent.com/e9t/nsmc/cc0670e872d4ac27bfe36c87456783004b39ef6c"
NSMC_LICENCE = "CC0 1.0"
NSMC = {
    part: PublicFile(
        "NSMC", "nsmc", f"ratings_{part}.txt", f"{NSMC_PAGE}/ratings_{part}.txt", blob, NSMC_LICENCE
    )
    for part, blob in {
        "train": "git-blob:ac0dba272895dc1d0b3dd5f11afbeaeb7abe7876",
        "test": "git-blob:b6cfcd8cd1557bcd9bf06617b0e429ed73e9a367",
    }.items()
}
# Rebuilt from the raw reviews of the same commit: balanced, without repetitions, another split.
NSMC_REBUILT = {
    "ratings_train.tsv.gz": "sha256:72928d855f4e419eead1d20637a20afcea64d257292ffb3cf5098b8327193c40",
    "ratings_test.tsv.gz": "sha256:34ec2f800d8b502feababb014a28c2922e2e0c26201aef78747e66939979bb80",
    "ratings_train_20k.tsv.gz": "sha256:b211689604b0a5d913353fb74d71d005604891a1a5cc9ab93740836b4d7b3ce6",
    "ratings_test_5k.tsv.gz": "sha256:364df3a34ac98f64e588ca6a359cc21b0151b99a0062a15aac24ed187e5f0e08",
}
TATOEBA_LICENCE = "CC BY 2.0 FR; attribution: www.manythings.org/anki and tatoeba.org"
TATOEBA_2022 = "git-blob:7fcda9b28d72d59ce9991bf7afdf191c36fc8251"
VADER = PublicFile(
    "vaderSentiment's archive of rated review sentences",
    "vader",
    "vaderSentiment-3.3.2.tar.gz",
    "https://files.pythonhosted.org/packages/77/8c/4a48c10a50f750ae565e341e697d74a38075a3e43ff0df6f1ab72e186902/vaderSentiment-3.3.2.tar.gz",
    "sha256:5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    "MIT",
)
VADER_SENTENCES = "movieReviewSnippets_GroundTruth.txt"


def pairs(
    path: str | Path, *, columns: tuple[int, int] = (0, 1), separator: str = "\t", on_error: str = "raise"
) -> Corpus[Pair]:
    """Read sentence pairs from any file with two or more columns.

    Args:
        path:  UTF-8 text, one pair a line; gzip and zip are unpacked.
        columns: of the source and of the target, counted from 0.
        separator: between columns.
        on_error: "raise" at the first bad row, or "skip" and count ("encoding", "columns", "empty").

    Raises:
        ValueError: for a row, file or argument that cannot be used; the message names file and line.
    """
    source, target = _two_columns(columns)
    if not isinstance(separator, str) or not separator:
        raise ValueError(f"separator must be a string of at least one character, got {separator!r}")

    def parse(line: str) -> Pair:
        cut = fields(line, max(columns) + 1, separator=separator, more=True)
        return Pair(filled("source", cut[source]), filled("target", cut[target]))

    rows, skipped = read_rows(path, parse, on_error=on_error)
    return Corpus(rows, str(path), skipped=skipped)


def _two_columns(columns: tuple[int, int]) -> tuple[int, int]:
    numbers = list(columns) if isinstance(columns, tuple | list) else []
    if [type(number) for number in numbers] != [int, int] or min(numbers) < 0 or numbers[0] == numbers[1]:
        raise ValueError(f"columns must be two different numbers from 0, got {columns!r}")
    return numbers[0], numbers[1]


def tatoeba(*, source: str = "ko", on_error: str = "raise") -> Corpus[Pair]:
    """Read Korean-English sentence pairs of Tatoeba, as manythings.org/anki publishes them.

    That page renews its file several times a year and keeps no older one, so
    there is no address with a checksum: download kor-eng.zip there once. The
    stored results of this book come from the edition of 2022-09 (3,853 pairs);
    `origin` says whether yours is that one.

    Args:
        source: "ko" to translate from Korean, "en" from English.
        on_error: as in `pairs`.

    Raises:
        DataUnavailable: if the local folder has no such file; the message says where to put it.
        ValueError: as `pairs`.
    """
    require_choice("source", source, ("ko", "en"))
    path = local_file("tatoeba_kor_eng", "kor.txt", "kor-eng.zip")
    if path is None:
        raise DataUnavailable(
            "Tatoeba's pairs must be downloaded by hand: put kor-eng.zip of https://www.manythings.org/anki/ "
            "into a folder tatoeba_kor_eng/ and set TUTORIAL_LIB_DATA to the folder that holds tatoeba_kor_eng/"
        )
    read = pairs(path, columns=(1, 0) if source == "ko" else (0, 1), on_error=on_error)
    edition = "edition of 2022-09" if file_checksum(path, "git-blob") == TATOEBA_2022 else "another edition"
    return Corpus(read.rows, f"{path.name} ({edition})", TATOEBA_LICENCE, read.skipped)


def nsmc(part: str = "train", *, size: str = "full", on_error: str = "skip") -> Corpus[Labelled]:
    """Read Korean film reviews with their labels, 1 = positive (Naver Sentiment Movie Corpus).

    The published files hold 150,000 and 50,000 reviews. A few of them are empty,
    which is why bad rows are skipped and counted here unless you say otherwise.

    Args:
        part: "train" or "test".
        size: "full", or "small" for 20,000 and 5,000 reviews that a local folder may have.
        on_error: as in `labelled`.

    Returns:
        the corpus; `origin` says whether it is the published split or the one rebuilt from raw reviews.

    Raises:
        DataUnavailable: if neither the local folder nor the public source has it; the message says what to do.
        ValueError: for a row or file that cannot be used; the message names file and line.
    """
    require_choice("part", part, tuple(NSMC))
    require_choice("size", size, ("full", "small"))
    small = f"ratings_{part}_{'20k' if part == 'train' else '5k'}.tsv.gz"
    if size == "small":
        path = local_file("nsmc", small)
        if path is None:
            raise DataUnavailable(
                f"there is no {small} in the local folder nsmc/; read the full file and take `sample` of it"
            )
    else:
        path = local_file("nsmc", NSMC[part].name, f"ratings_{part}.tsv.gz") or fetch(NSMC[part])
    read = labelled(path, header="id\tdocument\tlabel", on_error=on_error)
    return Corpus(read.rows, f"{path.name} ({_nsmc_edition(path, part)})", NSMC_LICENCE, read.skipped)


def _nsmc_edition(path: Path, part: str) -> str:
    if file_checksum(path, "git-blob") == NSMC[part].checksum:
        return "the published split"
    if file_checksum(path, "sha256") == NSMC_REBUILT.get(path.name):
        return "rebuilt from the raw reviews, not the published split"
    return "another edition"


def labelled(
    path: str | Path,
    *,
    columns: tuple[int, int] = (1, 2),
    labels: tuple[str, ...] = ("0", "1"),
    header: str | None = None,
    on_error: str = "raise",
) -> Corpus[Labelled]:
    """Read texts with labels from a file with tab-separated columns.

    Args:
        path:  UTF-8 text, one row a line; gzip and zip are unpacked.
        columns: of the text and of the label, counted from 0.
        labels: as they are written in the file; their places here become the classes 0, 1, ...
        header: what the first line must be, if it is no row.
        on_error: "raise" at the first bad row, or "skip" and count ("encoding", "columns", "empty", "label").

    Raises:
        ValueError: for a row, file or argument that cannot be used; the message names file and line.
    """
    of_text, of_label = _two_columns(columns)
    names = list(labels) if isinstance(labels, tuple | list) else []
    if any(not isinstance(name, str) for name in names) or len(set(names)) != len(names) or len(names) < 2:
        raise ValueError(f"labels must be two or more different strings, got {labels!r}")

    def parse(line: str) -> Labelled:
        cut = fields(line, max(columns) + 1, more=True)
        text, label = cut[of_text], cut[of_label]
        if label not in labels:
            raise RowError("label", f"label must be one of {', '.join(labels)}, got {label!r}")
        return Labelled(filled("text", text), labels.index(label))

    rows, skipped = read_rows(path, parse, on_error=on_error, header=header)
    return Corpus(rows, str(path), skipped=skipped)


def english_reviews(*, margin: float = 0.5, on_error: str = "raise") -> Corpus[Labelled]:
    """Read sentences of English film reviews, 1 = positive (Hutto & Gilbert 2014, section 4).

    Twenty people or more rated each of the 10,605 sentences from -4 to 4.
    Sentences whose mean lies within the margin are left out and counted as
    "undecided".

    Args:
        margin: smallest mean rating, in size, that counts as an opinion; above 0, at most 4.
        on_error: as in `labelled`.

    Raises:
        DataUnavailable: if neither the local folder nor the public source has it; the message says what to do.
        ValueError: for a row, file or margin that cannot be used; the message names file and line.
    """
    if not 0 < margin <= 4:
        raise ValueError(f"margin must be above 0 and at most 4, got {margin!r}")
    path = local_file("vader", VADER_SENTENCES, "hutto_ICWSM_2014.tar.gz", VADER.name) or fetch(VADER)
    undecided = 0

    def parse(line: str) -> Labelled | None:
        nonlocal undecided
        _, rating, text = fields(line, 3)
        try:
            value = float(rating)
        except ValueError:
            value = math.nan
        if not -4 <= value <= 4:  # nan is not, either
            raise RowError("label", f"the rating must be a number from -4 to 4, got {rating!r}")
        if abs(value) < margin:
            undecided += 1
            return None
        return Labelled(filled("text", text), int(value > 0))

    rows, skipped = read_rows(path, parse, on_error=on_error, unpack=_vader_sentences)
    return Corpus(rows, path.name, VADER.licence, {**skipped, "undecided": undecided})


def _vader_sentences(path: Path) -> bytes:
    if not path.name.endswith(".tar.gz"):
        return read_bytes(path)
    data = path.read_bytes()
    inner = _member(data, "hutto_ICWSM_2014.tar.gz", path)  # the package holds an archive in an archive
    sentences = _member(data if inner is None else inner, VADER_SENTENCES, path)
    if sentences is None:
        raise ValueError(f"{path}: the archive holds no {VADER_SENTENCES}")
    return sentences


def _member(data: bytes, name: str, path: Path) -> bytes | None:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            found = [entry for entry in archive if entry.isfile() and entry.name.split("/")[-1] == name]
            return archive.extractfile(found[0]).read() if found else None
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path}: the archive is damaged or cut off ({error}); get it again") from error


def plain_text(path: str | Path, *, on_error: str = "raise") -> Corpus[str]:
    """Read a text of your own, one string a line; lines without a visible character are left out.

    Args:
        path:  UTF-8 text; gzip and zip are unpacked.
        on_error: "raise" at a line that is not UTF-8, or "skip" and count.

    Raises:
        ValueError: for a line or file that cannot be used; the message names file and line.
    """
    rows, skipped = read_rows(
        path, lambda line: line.strip() if has_visible(line) else None, on_error=on_error
    )
    return Corpus(rows, str(path), skipped=skipped)
