"""Whatever a file holds, the message names the file and the line, or the row is left out and counted."""

from __future__ import annotations

import codecs
import gzip
import random
import unicodedata
import zipfile

import pytest
from support import error_table

from tutorial_lib.reading import RowError, fields, filled, has_visible, read_bytes, read_rows
from tutorial_lib.tokenizers import train_sentencepiece


@pytest.fixture
def write(tmp_path):
    def write(data: bytes, name: str = "rows.tsv"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def two(line):
    return tuple(filled("field", field) for field in fields(line, 2))


def test_rows_come_in_the_order_of_the_file(write):
    assert read_rows(write(b"a\tb\nc\td\n"), two) == ([("a", "b"), ("c", "d")], {})


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfa\tb\nc\td",
        b"a\tb\r\nc\td\r\n",
        b"\xef\xbb\xbfa\tb\r\nc\td\r\n",
        b" a \tb\nc\t d\n",
        2 * b"\xef\xbb\xbf" + b"a\tb\nc\td\n",
        b"a\tb\n\xef\xbb\xbfc\td\n",
        b"a\tb\nc\td\r\r\n",
    ],
    ids=[
        "byte order mark",
        "CRLF",
        "both",
        "spaces around fields",
        "two marks",
        "a mark in the middle",
        "CRCRLF",
    ],
)
def test_marks_of_other_systems_do_not_reach_the_rows(write, data):
    assert read_rows(write(data), two)[0] == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("inside", ["\x85", "\u2028", "\x0b", "\x1c", "\r "])
def test_only_a_line_feed_ends_a_line(write, inside):
    rows, _ = read_rows(write(f"a{inside}a\tb\n".encode()), two)
    assert rows == [(f"a{inside}a", "b")]


def test_a_carriage_return_that_can_only_be_a_line_end_is_refused(write):
    path = write(b"a\tb\n" + "하나\tone\r둘\ttwo\r셋\tthree\n".encode() + b"c\td\n")
    says = r"rows\.tsv, line 2: holds a carriage return as a line end \(old Mac\); save it with line feeds"
    for more in (False, True):
        with pytest.raises(ValueError, match=says):
            read_rows(path, lambda line, more=more: fields(line, 2, more=more))
    assert read_rows(path, two, on_error="skip") == ([("a", "b"), ("c", "d")], {"columns": 1})
    assert fields("a\r a\tb\tfrom here", 2, more=True) == ["a\r a", "b", "from here"]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_file_with_carriage_returns_only_is_named(write, on_error):
    with pytest.raises(ValueError, match=r"rows\.tsv: ends its lines with carriage returns \(old Mac\)"):
        read_rows(write(b"one\rtwo\rthree\r"), str, on_error=on_error)
    assert read_rows(write(b"a\tb\r"), two)[0] == [("a", "b")]


def test_text_comes_back_composed(write):
    decomposed = unicodedata.normalize("NFD", "한글\t도\n")
    assert read_rows(write(decomposed.encode()), two)[0] == [("한글", "도")]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_last_line_counts_with_and_without_its_end(write, end):
    assert len(read_rows(write(b"a\tb\nc\td" + end), two)[0]) == 2


def test_gzip_is_unpacked_whatever_its_name(write):
    assert read_rows(write(gzip.compress(b"a\tb\n"), "rows.tsv.gz"), two)[0] == [("a", "b")]
    assert read_rows(write(gzip.compress(b"a\tb\n"), "rows.tsv"), two)[0] == [("a", "b")]


def zipped(tmp_path, **texts):
    with zipfile.ZipFile(tmp_path / "kor-eng.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name.replace("__", "."), text)
    return tmp_path / "kor-eng.zip"


def test_a_zip_archive_with_one_text_is_unpacked(tmp_path):
    path = zipped(tmp_path, kor__txt="a\tb\n", _about__txt="who made it")
    assert read_rows(path, two)[0] == [("a", "b")]


def test_a_zip_archive_with_several_texts_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must hold one text, got \['a\.txt', 'b\.txt'\]"):
        read_bytes(zipped(tmp_path, a__txt="1", b__txt="2"))


@pytest.mark.parametrize("at, value", [(6, 1), (8, 9)], ids=["encrypted", "Deflate64"])
def test_a_zip_archive_that_python_cannot_unpack_is_named(tmp_path, at, value):
    path = zipped(tmp_path, kor__txt="a\tb\n" * 9)
    data = bytearray(path.read_bytes())
    for start in (data.index(b"PK\x03\x04"), data.index(b"PK\x01\x02") + 2):  # both of its headers
        data[start + at] = value
    path.write_bytes(data)
    with pytest.raises(
        ValueError, match=r"kor-eng\.zip: Python cannot unpack the archive \(.*unpack it yours"
    ):
        read_bytes(path)


BAD = {
    "encoding": ("한글\t1".encode("cp949"), "is not UTF-8 (byte 0xc7 at position 1)"),
    "columns": (b"a", "expected 2 columns, got 1: 'a'"),
    "too many": (b"a\tb\tc", "expected 2 columns, got 3"),
    "empty": (b"a\t ", "the field is empty"),
    "blank line": (b"", "expected 2 columns, got 1: ''"),
    "NUL": (b"a\0b\tc", "holds a NUL byte: is it UTF-16, or no text at all?"),
    "invisible": (b"a\t\xe2\x80\x8b", r"the field has no visible character: '\u200b'"),
}


@pytest.mark.parametrize("bad, says", BAD.values(), ids=BAD)
def test_a_bad_row_stops_with_file_and_line(write, bad, says):
    path = write(b"a\tb\n" + bad + b"\nc\td\n")
    with pytest.raises(ValueError) as caught:
        read_rows(path, two)
    assert str(caught.value).startswith(f"{path}, line 2: {says}"), caught.value


def test_skipped_rows_are_counted_by_kind(write):
    path = write(b"\n".join([b"a\tb", *(bad for bad, _ in BAD.values()), b"c\td"]))
    rows, skipped = read_rows(path, two, on_error="skip")
    assert rows == [("a", "b"), ("c", "d")]
    assert skipped == {"columns": 3, "empty": 2, "encoding": 2}


@pytest.mark.parametrize("invisible", ["\u200b", "\ufeff", "\x01", "▁", "\ufffd", "▁ \u3000\xa0\u2028\u00ad"])
def test_what_sentencepiece_takes_for_nothing_is_empty(invisible):
    pieces = train_sentencepiece(["나는 도시 여행을 좋아한다"], 30)
    assert not pieces.encode(invisible.replace("\u00ad", ""))
    assert not has_visible(invisible) and has_visible(f"{invisible}가")
    with pytest.raises(RowError, match="the text has no visible character"):
        filled("text", invisible)


@pytest.mark.parametrize("text", ["...", "ㅋ", "\U0001f600", "3", "\u3164", "\u0301"])
def test_signs_and_single_letters_are_a_text(text):
    assert filled("text", text) == text


def test_a_row_that_is_none_is_left_out_without_a_count(write):
    assert read_rows(write(b"a\n\nb"), lambda line: line or None) == (["a", "b"], {})


def test_the_header_is_no_row_and_must_be_the_expected_one(write):
    path = write(b"\xef\xbb\xbfid\tlabel\r\na\tb\n")
    assert read_rows(path, two, header="id\tlabel")[0] == [("a", "b")]
    with pytest.raises(ValueError, match="line 1: expected the header"):
        read_rows(path, two, header="another", on_error="skip")


@pytest.mark.parametrize("packer", ["gzip", "zip"])
def test_an_archive_cut_off_anywhere_is_never_half_used(tmp_path, write, packer):
    text = "".join(f"{number}\t{number * number}\n" for number in range(2000))
    if packer == "gzip":
        whole, name = gzip.compress(text.encode()), "rows.tsv.gz"
    else:
        whole, name = zipped(tmp_path, rows__txt=text).read_bytes(), "rows.zip"
    for share in (0.02, 0.5, 0.9, 0.999):
        path = write(whole[: int(share * len(whole))], name)
        with pytest.raises(ValueError, match=r"rows\.\S+: the archive is damaged or cut off"):
            read_rows(path, two, on_error="skip")


def test_a_flipped_bit_in_an_archive_is_noticed(write):
    data = bytearray(gzip.compress(b"".join(b"%d\t1\n" % n for n in range(1000))))
    data[len(data) // 2] ^= 4
    with pytest.raises(ValueError, match="damaged"):
        read_rows(write(bytes(data), "a.gz"), two)


@pytest.mark.parametrize("method", ["STORED", "DEFLATED", "BZIP2", "LZMA"])
def test_a_flipped_bit_in_a_zip_archive_never_brings_anything_but_a_sentence(tmp_path, method):
    path, draw = tmp_path / "a.zip", random.Random(0)
    with zipfile.ZipFile(path, "w", getattr(zipfile, f"ZIP_{method}")) as archive:
        archive.writestr("a.txt", "".join(f"{number}\t한글\n" for number in range(200)))
        archive.writestr("한글_about.txt", "who made it")
    whole, caught = path.read_bytes(), 0
    for at in [*range(4, 40), *range(len(whole) - 200, len(whole)), *draw.choices(range(len(whole)), k=50)]:
        data = bytearray(whole)
        data[at] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        try:
            read_bytes(path)
        except ValueError as error:
            assert str(error).startswith(f"{path}: "), error
            caught += 1
    assert caught > 50


@error_table([("on_error", lambda: read_rows("x", two, on_error="ignore"), "'raise', 'skip', got 'ignore'")])
def test_wrong_arguments_are_named(wrong, says):
    with pytest.raises(ValueError, match=says):
        wrong()


def test_files_that_are_none_are_named(tmp_path, write):
    with pytest.raises(ValueError, match=r"no\.tsv: cannot be read \(No such file"):
        read_rows(tmp_path / "no.tsv", two)
    with pytest.raises(ValueError, match="cannot be read"):
        read_rows(tmp_path, two)
    with pytest.raises(ValueError, match="is not gzip data"):
        read_rows(write(b"<html>404</html>", "rows.gz"), two)
    with pytest.raises(ValueError, match="is UTF-16; save it as UTF-8"):
        read_rows(write("a\tb".encode("utf-16")), two)
    for mark, name in ((codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be")):
        with pytest.raises(ValueError, match="is UTF-32; save it as UTF-8"):
            read_rows(write(mark + "a\tb".encode(name)), two)
    for name in ("utf-16-le", "utf-16-be"):
        with pytest.raises(ValueError, match="line 1: holds a NUL byte: is it UTF-16"):
            read_rows(write("한글\t도시\n".encode(name)), two)


def test_a_file_without_a_usable_row_is_refused(write):
    with pytest.raises(ValueError, match=r"has no usable row \(0 left out\)"):
        read_rows(write(b""), two)
    with pytest.raises(ValueError, match=r"has no usable row \(2 left out\)"):
        read_rows(write(b"a\nb\n"), two, on_error="skip")


def test_more_columns_are_welcome_where_asked_for():
    assert fields("a|b|c", 2, separator="|", more=True) == ["a", "b", "c"]
    with pytest.raises(RowError, match="expected 2 or more columns, got 1"):
        fields("a", 2, more=True)
