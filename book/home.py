"""Where the book lives: every link to it, and the set-up cell of its notebooks, ask here.

The address is said once, as `repository.url` in `_config.yml`. In a fork it follows the fork without
an edit: the repository a workflow runs in comes first, then a clone's `origin` on GitHub.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
GITHUB = "https://github.com/"


def normalise(address: str) -> str | None:
    """https://github.com/owner/name for any form of a GitHub address, else None."""
    match = re.fullmatch(
        r"(?:https://(?:[^@/]+@)?github\.com/|(?:ssh://)?git@github\.com[:/])([\w.-]+)/([\w.-]+?)(?:\.git)?/?",
        address.strip(),
    )
    return f"{GITHUB}{match[1]}/{match[2]}" if match else None


def choose(environment: dict[str, str], origin: str, setting: str) -> str:
    """The address: a workflow's repository, else the clone's origin on GitHub, else the setting."""
    if environment.get("GITHUB_REPOSITORY"):
        return GITHUB + environment["GITHUB_REPOSITORY"]
    if origin and normalise(origin):
        return normalise(origin)
    home = normalise(setting)
    if home is None:
        raise ValueError(f"repository.url in _config.yml must be {GITHUB}OWNER/NAME, got {setting!r}")
    return home


@lru_cache(1)
def home() -> str:
    """The address of the repository, such as https://github.com/owner/name."""
    origin = subprocess.run(
        ["git", "-C", ROOT, "config", "--get", "remote.origin.url"], capture_output=True, text=True
    ).stdout
    setting = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    return choose(dict(os.environ), origin, setting)


def pages_url(address: str) -> str:
    """Where GitHub Pages publishes the repository at this address, with a slash at the end."""
    owner, name = address.removeprefix(GITHUB).split("/")
    host = f"https://{owner.lower()}.github.io/"
    return host if name.lower() == f"{owner.lower()}.github.io" else f"{host}{name}/"


def version() -> str:
    """The library's version, as pyproject.toml takes it from the package."""
    text = (ROOT / "src/tutorial_lib/__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)[1]


def install_address(address: str | None = None, release: str | None = None) -> str:
    """What `pip install` gets in a notebook: the library alone, at the tag of its version."""
    return f"git+{address or home()}@v{release or version()}"


def check_release(tag: str) -> list[str]:
    """What stands against releasing this tag: an empty list when its notebooks install the tag itself."""
    faults = []
    if tag != f"v{version()}":
        faults.append(f"the tag is {tag}, but the library's version asks for v{version()}")
    wanted = f"git+{home()}@{tag}"
    for path in sorted([*ROOT.glob("chapters/*/*.ipynb"), *ROOT.glob("exercises/*/*.ipynb")]):
        if wanted not in path.read_text(encoding="utf-8"):
            faults.append(
                f"{path.relative_to(ROOT)} does not install {wanted}: run `make notebooks`, commit, tag again"
            )
    return faults


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "check-release":
        sys.exit("\n".join(check_release(sys.argv[2])) or 0)
    print(home())
