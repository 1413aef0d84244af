"""A file is fetched whole or not at all, from a server on this machine that behaves as badly as asked."""

from __future__ import annotations

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tutorial_lib import downloads
from tutorial_lib.downloads import DataUnavailable, PublicFile, fetch, file_checksum, is_intact, local_file

CONTENT = b"".join(b"%07d\n" % number for number in range(40_000))  # 320 kB
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """`behaviour` holds what the next requests get; the last one stays."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour, self.requests = ["whole"], 0


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests += 1
        todo = self.server.behaviour
        how = todo.pop(0) if len(todo) > 1 else todo[0]
        if how == "missing":
            self.send_error(404)
            return
        content = CONTENT if how != "other" else CONTENT[:-1] + b"!"
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if how == "cut":
            self.wfile.write(content[:100_000])
            return  # the connection closes
        if how == "slow":
            for start in range(0, len(content), 4096):
                self.wfile.write(content[start : start + 4096])
                self.wfile.flush()
                time.sleep(0.05)
            return
        if how == "silent":
            time.sleep(2)
            return
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("TUTORIAL_LIB_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(time, "sleep", lambda *_, nap=time.sleep: nap(min(_[0], 0.05)))  # retries wait less
    with Server() as one:
        threading.Thread(target=one.serve_forever, daemon=True).start()
        yield one
        one.shutdown()


def wanted(server, checksum=SHA256, name="file.txt"):
    address = f"http://127.0.0.1:{server.server_port}/{name}"
    return PublicFile("The test file", "things", name, address, checksum, "")


def test_a_file_is_fetched_once_and_then_comes_from_the_cache(server, tmp_path):
    path = fetch(wanted(server), cache=tmp_path)
    assert path == tmp_path / "things" / "file.txt" and path.read_bytes() == CONTENT
    assert fetch(wanted(server), cache=tmp_path) == path
    assert server.requests == 1


def test_gits_checksum_is_gits(tmp_path):
    path = tmp_path / "hello"
    path.write_bytes(b"hello\n")
    assert (
        file_checksum(path, "git-blob") == "git-blob:ce013625030ba8dba906f756967f9e9ca394464a"
    )  # git hash-object
    with pytest.raises(ValueError, match="'sha256:' or 'git-blob:', got 'md5'"):
        file_checksum(path, "md5")


def test_a_file_with_gits_checksum_is_checked_too(server, tmp_path):
    blob = "git-blob:" + hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()
    assert fetch(wanted(server, blob), cache=tmp_path).read_bytes() == CONTENT
    with pytest.raises(DataUnavailable, match="checksum"):
        fetch(wanted(server, "git-blob:" + "0" * 40, "b.txt"), cache=tmp_path)


@pytest.mark.parametrize("damage", ["cut off", "changed", "empty"])
def test_a_damaged_copy_in_the_cache_is_fetched_again(server, tmp_path, damage):
    path = fetch(wanted(server), cache=tmp_path)
    new = {"cut off": CONTENT[:1000], "changed": CONTENT[:-1] + b"?", "empty": b""}[damage]
    path.write_bytes(new)
    assert fetch(wanted(server), cache=tmp_path).read_bytes() == CONTENT
    assert server.requests == 2


@pytest.mark.parametrize("first", ["cut", "other", "missing", "silent"])
def test_a_failed_try_is_repeated(server, tmp_path, first):
    server.behaviour = [first, first, "whole"]
    assert fetch(wanted(server), cache=tmp_path, timeout=0.3).read_bytes() == CONTENT
    assert server.requests == 3


@pytest.mark.parametrize("always", ["cut", "other", "missing"])
def test_after_all_tries_one_sentence_says_what_to_do_and_nothing_is_left(server, tmp_path, always):
    server.behaviour = [always]
    with pytest.raises(DataUnavailable) as caught:
        fetch(wanted(server), cache=tmp_path, retries=1)
    message = str(caught.value)
    assert message.startswith("The test file could not be downloaded from http://127.0.0.1")
    assert "put file.txt into a folder things/ and set TUTORIAL_LIB_DATA" in message
    assert "\n" not in message and server.requests == 2
    assert list((tmp_path / "things").iterdir()) == []


def test_without_a_connection_one_sentence_says_what_to_do(server, tmp_path):
    nobody = PublicFile("NSMC", "nsmc", "a.txt", "http://127.0.0.1:9/a.txt", SHA256, "")
    with pytest.raises(
        DataUnavailable, match=r"\(ConnectionError\); go online once, or put a\.txt into a folder nsmc/"
    ):
        fetch(nobody, cache=tmp_path, retries=0)


def test_a_cache_that_cannot_be_written_is_said(server, tmp_path):
    (tmp_path / "things").write_text("a file where a folder should be")
    with pytest.raises(DataUnavailable, match="could not be downloaded"):
        fetch(wanted(server), cache=tmp_path, retries=0)


CHILD = """
import pathlib, sys
from tutorial_lib.downloads import PublicFile, fetch
fetch(PublicFile("t", "things", "file.txt", sys.argv[1], sys.argv[2], ""), cache=pathlib.Path(sys.argv[3]))
"""


def test_a_download_killed_in_the_middle_leaves_nothing_that_could_be_used(server, tmp_path):
    server.behaviour = ["slow", "whole"]
    file = wanted(server)
    command = [sys.executable, "-c", CHILD, file.url, file.checksum, str(tmp_path)]
    source = os.path.dirname(os.path.dirname(downloads.__file__))
    child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source})
    folder = tmp_path / "things"
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size > 20_000 for path in (folder.iterdir() if folder.exists() else [])):
        assert child.poll() is None and time.monotonic() < deadline, "no download was seen"
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    assert not (folder / "file.txt").exists()
    assert not is_intact(folder / "file.txt", SHA256)
    assert fetch(file, cache=tmp_path).read_bytes() == CONTENT
    (left,) = (path for path in folder.iterdir() if path.name != "file.txt")
    grow_old(left, hours=25)
    fetch(file, cache=tmp_path)
    assert [path.name for path in folder.iterdir()] == ["file.txt"]


def grow_old(path, hours):
    then = path.stat().st_mtime - 3600 * hours
    os.utime(path, (then, then))


def test_only_old_temporary_files_are_removed_from_the_cache(server, tmp_path):
    (tmp_path / "things").mkdir()
    for name, hours in (("tmpabc_1234", 25), ("tmpdef_5678", 23), ("tmp_notes.md", 25), ("tmp_my_words", 25)):
        (tmp_path / "things" / name).write_text("x")
        grow_old(tmp_path / "things" / name, hours)
    fetch(wanted(server), cache=tmp_path)
    left = {path.name for path in (tmp_path / "things").iterdir()}
    assert left == {"file.txt", "tmpdef_5678", "tmp_notes.md", "tmp_my_words"}


def test_the_local_folder_comes_first(tmp_path, monkeypatch):
    (tmp_path / "nsmc").mkdir()
    (tmp_path / "nsmc" / "b").write_text("b")
    monkeypatch.setenv("TUTORIAL_LIB_DATA", str(tmp_path))
    assert local_file("nsmc", "a", "b") == tmp_path / "nsmc" / "b"
    assert local_file("nsmc", "c") is None
    (tmp_path / "nsmc" / "a").write_text("a")
    assert local_file("nsmc", "a", "b") == tmp_path / "nsmc" / "a"


@pytest.mark.parametrize("unset", [None, "", " "])
def test_without_a_local_folder_there_is_no_local_file(monkeypatch, unset):
    monkeypatch.delenv("TUTORIAL_LIB_DATA", raising=False)
    if unset is not None:
        monkeypatch.setenv("TUTORIAL_LIB_DATA", unset)
    assert downloads.data_folder() is None and local_file("nsmc", "a") is None


def test_a_local_folder_that_is_none_is_not_passed_over(tmp_path, monkeypatch):
    for name in (str(tmp_path / "nowhere"), "~nosuchuser/nowhere"):
        monkeypatch.setenv("TUTORIAL_LIB_DATA", name)
        with pytest.raises(DataUnavailable, match=r"TUTORIAL_LIB_DATA must name a folder, got '.*nowhere'"):
            local_file("nsmc", "a")


def test_the_local_folder_may_lie_in_the_home_folder(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TUTORIAL_LIB_DATA", "~/mine")
    assert downloads.data_folder() == tmp_path / "mine"
