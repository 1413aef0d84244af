"""The command `tutorial-lib`: `teach ...` for exercises and grading, `train ...` for training runs."""

from __future__ import annotations

import sys

AREAS = {"teach": "exercises and grading", "train": "translation, classification, language models"}


def main(argv: list[str] | None = None) -> int:
    """Hand the arguments to the area that they name; each area imports only what it needs."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    area = arguments[0] if arguments else ""
    if area == "train":
        from tutorial_lib import train_cli

        return train_cli.main(arguments[1:])
    if area == "teach":
        from tutorial_lib.teaching import cli as teaching

        return teaching.main(arguments)
    listed = "\n".join(f"  tutorial-lib {name} --help   {what}" for name, what in AREAS.items())
    asked = area in ("-h", "--help")
    (sys.stdout if asked else sys.stderr).write(f"Tools of the book:\n{listed}\n")
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main())
