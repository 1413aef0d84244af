"""Loaders read what is published, say which edition it is, and never pass over a fault in silence."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import tarfile

import pytest

from tutorial_lib import corpora, downloads
from tutorial_lib.corpora import Labelled, Pair
from tutorial_lib.downloads import DataUnavailable

HEADER = "id\tdocument\tlabel\n"


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Write a file into the local folder."""
    monkeypatch.setenv("TUTORIAL_LIB_DATA", str(tmp_path))

    def put(name, data):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return put


@pytest.fixture
def offline(monkeypatch):
    """Let nobody download; remember what was asked for."""
    asked = []

    def refuse(file, **_):
        asked.append(file)
        raise DataUnavailable(f"{file.title} could not be downloaded")

    monkeypatch.setattr(corpora, "fetch", refuse)
    return asked


def test_pairs_of_any_file_in_either_direction(put):
    path = put("my.tsv", "Go.\t가.\tCC-BY\nHi.\t안녕.\n")
    assert corpora.pairs(path).rows == [Pair("Go.", "가."), Pair("Hi.", "안녕.")]
    read = corpora.pairs(path, columns=(1, 0))
    assert read.rows[0] == Pair("가.", "Go.") and read.origin == str(path) and len(read) == 2


def test_pairs_with_another_separator(put):
    path = put("my.txt", "Go. ||| 가.\n")
    assert corpora.pairs(path, separator="|||").rows == [Pair("Go.", "가.")]


@pytest.mark.parametrize(
    "columns", [(0, 0), (-1, 0), (0, -1), (0,), (0, 1, 2), (), 1, None, "01", (0, 1.0), (False, True)]
)
@pytest.mark.parametrize("read", [corpora.pairs, corpora.labelled])
def test_impossible_columns_are_refused(put, read, columns):
    with pytest.raises(ValueError, match=f"two different numbers from 0, got {re.escape(repr(columns))}$"):
        read(put("a.tsv", "0\t1\n"), columns=columns)


@pytest.mark.parametrize("labels", [("0", "0"), ("0",), (), "01", None, (0, 1), ("0", None), ([], "0")])
def test_impossible_labels_are_refused(put, labels):
    with pytest.raises(ValueError, match=f"two or more different strings, got {re.escape(repr(labels))}$"):
        corpora.labelled(put("a.tsv", "1\tgood\t0\n"), labels=labels)


@pytest.mark.parametrize("separator", ["", None, 5])
def test_an_impossible_separator_is_refused(put, separator):
    with pytest.raises(ValueError, match=f"at least one character, got {separator!r}$"):
        corpora.pairs(put("a.tsv", "a\tb\n"), separator=separator)


def test_an_empty_side_is_named_or_counted(put):
    path = put("a.tsv", "Go.\t가.\n \t안녕.\nHi.\t\nHi.\t\u200b\n▁\t안녕.\n")
    with pytest.raises(ValueError, match=r"a\.tsv, line 2: the source is empty"):
        corpora.pairs(path)
    with pytest.raises(ValueError, match=r"a\.tsv, line 2: the target is empty"):
        corpora.pairs(path, columns=(1, 0))
    assert corpora.pairs(path, on_error="skip").skipped == {"empty": 4}


def test_tatoeba_reads_both_directions_and_names_its_edition_and_licence(put, monkeypatch):
    text = "Go.\t가.\tCC-BY 2.0 (France) Attribution: tatoeba.org #2877272 (CM) & #8363271 (Eunhee)\n"
    put("tatoeba_kor_eng/kor.txt", text)
    read = corpora.tatoeba()
    assert read.rows == [Pair("가.", "Go.")] and read.origin == "kor.txt (another edition)"
    assert read.licence.startswith("CC BY 2.0 FR") and "tatoeba.org" in read.licence
    assert corpora.tatoeba(source="en").rows == [Pair("Go.", "가.")]
    blob = hashlib.sha1(b"blob %d\0" % len(text.encode()) + text.encode()).hexdigest()
    monkeypatch.setattr(corpora, "TATOEBA_2022", f"git-blob:{blob}")
    assert corpora.tatoeba().origin == "kor.txt (edition of 2022-09)"


def test_tatoeba_must_be_put_there_by_hand(put):
    with pytest.raises(
        DataUnavailable, match=r"put kor-eng\.zip of https\S+ into a folder tatoeba_kor_eng/ and set"
    ):
        corpora.tatoeba()
    with pytest.raises(ValueError, match="'ko', 'en', got 'de'"):
        corpora.tatoeba(source="de")


def test_nsmc_of_the_local_folder_says_that_it_was_rebuilt(put, offline, monkeypatch):
    packed = gzip.compress((HEADER + "1\t재미있다\t1\n2\t별로\t0\n").encode())
    put("nsmc/ratings_train.tsv.gz", packed)
    read = corpora.nsmc("train")
    assert read.rows == [Labelled("재미있다", 1), Labelled("별로", 0)]
    assert read.origin == "ratings_train.tsv.gz (another edition)" and offline == []
    checksum = "sha256:" + hashlib.sha256(packed).hexdigest()
    monkeypatch.setitem(corpora.NSMC_REBUILT, "ratings_train.tsv.gz", checksum)
    assert "rebuilt from the raw reviews, not the published split" in corpora.nsmc("train").origin


def test_the_published_nsmc_comes_before_the_rebuilt_one_and_its_empty_reviews_are_counted(
    put, offline, monkeypatch
):
    text = HEADER + "1\t재미있다\t1\n2\t\t1\n3\t별로\t0\n"
    put("nsmc/ratings_test.tsv.gz", gzip.compress((HEADER + "9\t다른 것\t0\n").encode()))
    put("nsmc/ratings_test.txt", text)
    read = corpora.nsmc("test")
    assert [row.text for row in read.rows] == ["재미있다", "별로"] and read.skipped == {"empty": 1}
    assert read.origin == "ratings_test.txt (another edition)"
    blob = hashlib.sha1(b"blob %d\0" % len(text.encode()) + text.encode()).hexdigest()
    published = corpora.NSMC["test"].__class__(
        **{**vars(corpora.NSMC["test"]), "checksum": f"git-blob:{blob}"}
    )
    monkeypatch.setitem(corpora.NSMC, "test", published)
    assert corpora.nsmc("test").origin == "ratings_test.txt (the published split)"
    with pytest.raises(ValueError, match="line 3: the text is empty"):
        corpora.nsmc("test", on_error="raise")


def test_nsmc_is_downloaded_where_the_folder_has_none(put, offline):
    with pytest.raises(DataUnavailable, match="NSMC could not be downloaded"):
        corpora.nsmc("test")
    (file,) = offline
    assert file.name == "ratings_test.txt" and file.url.endswith("/ratings_test.txt")
    assert file.checksum == "git-blob:b6cfcd8cd1557bcd9bf06617b0e429ed73e9a367"
    assert corpora.NSMC["train"].checksum == "git-blob:ac0dba272895dc1d0b3dd5f11afbeaeb7abe7876"


def test_small_nsmc_comes_from_the_folder_only(put, offline):
    with pytest.raises(DataUnavailable, match=r"no ratings_test_5k\.tsv\.gz"):
        corpora.nsmc("test", size="small")
    put("nsmc/ratings_train_20k.tsv.gz", gzip.compress((HEADER + "1\t좋다\t1\n").encode()))
    assert corpora.nsmc("train", size="small").rows == [Labelled("좋다", 1)]
    for wrong in ({"part": "valid"}, {"size": "20k"}):
        with pytest.raises(ValueError, match="must be one of"):
            corpora.nsmc(**wrong)


def test_unknown_labels_are_named_or_counted(put):
    path = put("a.tsv", "1\tgood\t1\n2\tbad\t2\n3\tx\n4\tso so\t0\n")
    with pytest.raises(ValueError, match=r"a\.tsv, line 2: label must be one of 0, 1, got '2'"):
        corpora.labelled(path)
    read = corpora.labelled(path, on_error="skip")
    assert read.skipped == {"columns": 1, "label": 1} and read.rows[1] == Labelled("so so", 0)


def test_labels_are_numbered_as_they_are_given(put):
    path = put("a.tsv", "neg\tbad\npos\tgood\n")
    assert corpora.labelled(path, columns=(1, 0), labels=("pos", "neg")).rows[0] == Labelled("bad", 1)


SENTENCES = "1\t2.26\tGood film\r\n2\t-0.6\tDull\r\n3\t0.2\tA film\r\n"


def tar(**members):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name.replace("__", "/"))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


INNER = tar(**{"hutto_ICWSM_2014__movieReviewSnippets_GroundTruth.txt": SENTENCES.encode()})
SDIST = tar(
    **{
        "vaderSentiment-3.3.2__setup.py": b"",
        "vaderSentiment-3.3.2__additional_resources__hutto_ICWSM_2014.tar.gz": INNER,
    }
)


@pytest.mark.parametrize(
    "name, data",
    [
        ("movieReviewSnippets_GroundTruth.txt", SENTENCES.encode()),
        ("hutto_ICWSM_2014.tar.gz", INNER),
        ("vaderSentiment-3.3.2.tar.gz", SDIST),
    ],
)
def test_english_reviews_come_out_of_all_their_wrappings(put, name, data):
    put(f"vader/{name}", data)
    read = corpora.english_reviews()
    assert read.rows == [Labelled("Good film", 1), Labelled("Dull", 0)]
    assert read.skipped == {"undecided": 1} and read.origin == name
    assert len(corpora.english_reviews(margin=0.1)) == 3


def test_english_reviews_with_a_fault(put, offline):
    with pytest.raises(DataUnavailable):
        corpora.english_reviews()
    assert offline[0].url.startswith("https://files.pythonhosted.org/packages/77/8c/4a48c10a50f7")
    put("vader/vaderSentiment-3.3.2.tar.gz", SDIST[: len(SDIST) // 2])
    with pytest.raises(ValueError, match=r"3\.3\.2\.tar\.gz: the archive is damaged or cut off"):
        corpora.english_reviews()
    put("vader/movieReviewSnippets_GroundTruth.txt", SENTENCES + "4\tgood\tfilm\r\n5\t2\t\r\n")
    with pytest.raises(ValueError, match="line 4: the rating must be a number from -4 to 4, got 'good'"):
        corpora.english_reviews()
    assert corpora.english_reviews(on_error="skip").skipped == {"empty": 1, "label": 1, "undecided": 1}


@pytest.mark.parametrize("rating", ["nan", "inf", "-inf", "4.1", "-5"])
def test_a_rating_that_is_none_makes_no_class(put, rating):
    put("vader/movieReviewSnippets_GroundTruth.txt", SENTENCES + f"4\t{rating}\tA film\r\n")
    with pytest.raises(ValueError, match=f"line 4: the rating must be a number from -4 to 4, got '{rating}'"):
        corpora.english_reviews()


@pytest.mark.parametrize("margin", [0, -0.5, 4.5, float("nan"), float("inf")])
def test_an_impossible_margin_is_refused(put, margin):
    put("vader/movieReviewSnippets_GroundTruth.txt", SENTENCES)
    with pytest.raises(ValueError, match=f"margin must be above 0 and at most 4, got {margin}"):
        corpora.english_reviews(margin=margin)


@pytest.mark.parametrize(
    "data",
    [tar(setup__py=b""), tar(**{"hutto_ICWSM_2014.tar.gz": tar(other__txt=b"1\t2\tGood\n")})],
    ids=["no inner archive", "another text"],  # the bytes hold the time
)
def test_an_archive_without_the_reviews_is_named(put, data):
    put("vader/vaderSentiment-3.3.2.tar.gz", data)
    with pytest.raises(
        ValueError, match=r"3\.3\.2\.tar\.gz: the archive holds no movieReviewSnippets_\S+\.txt"
    ):
        corpora.english_reviews()


def test_plain_text_is_one_string_a_line_without_empty_ones(put):
    read = corpora.plain_text(put("a.txt", "첫 문장. \n\n\u200b\n둘째 문장.\r\n"))
    assert read.rows == ["첫 문장.", "둘째 문장."] and read.licence == ""
    path = put("b.txt", "좋다\n".encode() + "나쁘다\n".encode("cp949"))
    with pytest.raises(ValueError, match=r"b\.txt, line 2: is not UTF-8"):
        corpora.plain_text(path)
    assert corpora.plain_text(path, on_error="skip").skipped == {"encoding": 1}


def test_every_public_file_has_a_checksum_and_a_licence():
    for file in (*corpora.NSMC.values(), corpora.VADER):
        assert file.licence and file.url.startswith("https://")
        kind, digest = file.checksum.split(":")
        assert len(digest) == {"git-blob": 40, "sha256": 64}[kind]
        assert isinstance(file, downloads.PublicFile)
