"""Where the book lives is said once, and everything follows it."""

import re
import subprocess
import sys

import home
import pytest
import yaml

SETTING = "https://github.com/someone/book"


@pytest.mark.parametrize(
    "address",
    [
        "https://github.com/owner/name",
        "https://github.com/owner/name.git",
        "https://github.com/owner/name/",
        "https://token@github.com/owner/name",
        "git@github.com:owner/name.git",
        "ssh://git@github.com/owner/name.git",
    ],
)
def test_every_form_of_a_github_address_is_understood(address):
    assert home.normalise(address) == "https://github.com/owner/name"


@pytest.mark.parametrize(
    "address", ["", "/srv/git/book", "https://gitlab.com/owner/name", "https://github.com/owner"]
)
def test_other_addresses_are_not_taken_for_the_home(address):
    assert home.normalise(address) is None
    assert home.choose({}, address, SETTING) == SETTING


def test_a_fork_needs_no_edit():
    assert home.choose({}, "git@github.com:fork/book.git", SETTING) == "https://github.com/fork/book"
    in_a_workflow = {"GITHUB_REPOSITORY": "fork/book"}
    assert (
        home.choose(in_a_workflow, "https://github.com/other/clone", SETTING)
        == "https://github.com/fork/book"
    )


def test_a_wrong_setting_is_named():
    with pytest.raises(ValueError, match=r"must be https://github.com/OWNER/NAME, got 'example.org'"):
        home.choose({}, "", "example.org")


def test_pages_address():
    assert home.pages_url("https://github.com/Owner/name") == "https://owner.github.io/name/"
    assert home.pages_url("https://github.com/Owner/owner.github.io") == "https://owner.github.io/"


def test_until_the_book_has_a_home_nobody_can_own_its_address(root):
    owner = yaml.safe_load((root / "_config.yml").read_text())["repository"]["url"].split("/")[3]
    longest_name_on_github = 39
    assert len(owner) > longest_name_on_github or "no-public-home" not in owner


def test_the_address_is_said_once(root):
    setting = yaml.safe_load((root / "_config.yml").read_text())["repository"]["url"]
    owner = setting.split("/")[3]
    listed = subprocess.run(
        ["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.split()
    saying = {
        name
        for name in listed
        if not name.endswith(".ipynb") and owner in (root / name).read_bytes().decode("utf-8", "replace")
    }
    assert saying == {"_config.yml"}


def test_a_release_is_refused_when_the_notebooks_do_not_install_it(root, monkeypatch):
    assert home.check_release("v9.9.9")
    monkeypatch.setenv("GITHUB_REPOSITORY", "fork/book")
    home.home.cache_clear()
    faults = home.check_release(f"v{home.version()}")
    home.home.cache_clear()
    assert all(re.search(r"does not install git\+https://github.com/fork/book@v", fault) for fault in faults)
    assert len(faults) == sum(len(list(root.glob(f"{top}/*/*.ipynb"))) for top in ("chapters", "exercises"))


def test_check_release_is_a_command(root):
    ran = subprocess.run(
        [sys.executable, root / "book/home.py", "check-release", "v0"], capture_output=True, text=True
    )
    assert ran.returncode == 1 and "the tag is v0" in ran.stderr
