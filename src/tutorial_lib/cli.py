"""The command `tutorial-lib`: `teach ...` for exercises and grading, `train ...` for training runs."""

from __future__ import annotations

import sys

AREAS = {"teach": "exercises and grading", "train": "translation, classification, language models"}


def main(argv: list[str] | None = None) -> int:
    """Hand the arguments to the area that they name; return the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what a terminal cannot show must not end a run
            stream.reconfigure(errors="backslashreplace")
    try:
        return _run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        sys.stderr.write("stopped; the same command goes on where it was stopped\n")
        return 130


def _run(arguments: list[str]) -> int:
    # Each area imports only what it needs; torch takes seconds.
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
