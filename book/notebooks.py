"""Chapters as notebooks: from each `.md` the `.ipynb` beside it, for Colab and Jupyter.

The cells' text comes from the source, outputs from the execution cache. What a notebook shows in Colab
is plain Markdown; what it stores is the same, byte for byte, on every machine.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import nbformat
from home import ROOT, install_address
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

MARK = "nbval-ignore-output"  # on cells whose output may differ between machines: trained numbers, timings
SETUP = """\
# In Colab this installs the book's library; elsewhere it does nothing.
import sys

if "google.colab" in sys.modules:
    import os

    os.environ["KERAS_BACKEND"] = "torch"
    %pip install -q "{address}"
"""
# No name of the chapter may be taken: it could be the module's.
SHOW = """\
import inspect
from importlib import import_module

print(inspect.getsource(import_module("tutorial_lib.{module}").{name}))"""
WORDS = {
    "en": {"note": "Note", "figure": "Figure"},
    "ko": {"note": "참고", "figure": "그림"},
}
KEPT_OUTPUTS = ("text/plain", "text/html", "text/latex", "text/markdown")

FENCE = re.compile(r"^(:{3,}|`{3,})\{([\w-]+)\}[ \t]*(.*)$")
OPTION = re.compile(r"^:([\w-]+):[ \t]*(.*)$")


def cell_id(source: str, kind: str, taken: set[str]) -> str:
    """An id made of the cell's own text, so that a cell keeps it when others are added around it."""
    base = f"{kind}-{hashlib.sha256(source.encode()).hexdigest()[:10]}"
    number, name = 1, base
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


def inline(line: str) -> str:
    """One line of MyST as Markdown that Colab shows: roles and links that only Sphinx knows become text."""
    line = re.sub(r"\{(?:ref|numref|eq|doc|term)\}`([^`<]*?)\s*(?:<[^`>]*>)?`", r"\1", line)
    line = re.sub(r"\]\(((?:\.\./)*exercises/\w+/\w+)\.md(?:#[\w-]*)?\)", r"](\1.ipynb)", line)
    line = re.sub(r"\[([^\]]+)\]\((?:\.\./)*[\w./-]*?(\d\d_\w+)\.md(?:#[\w-]*)?\)", r"[\1](\2.ipynb)", line)
    line = re.sub(r"\[([^\]]+)\]\((?:#[\w-]+|[\w./-]+\.md(?:#[\w-]*)?)\)", r"\1", line)
    return re.sub(r"^(\$\$.*\$\$|\$\$)[ \t]*\([\w-]+\)$", r"\1", line)


def quote(lines: list[str]) -> list[str]:
    return [f"> {line}".rstrip() for line in lines]


def directive(name: str, title: str, options: dict[str, str], body: list[str], language: str) -> list[str]:
    """A directive's lines as plain Markdown."""
    words = WORDS[language]
    if name == "admonition":
        return quote([f"**{title}**", "", *body])
    if name == "note":
        return quote([f"**{title or words['note']}**", "", *body])
    if name == "dropdown":
        return ["<details>", f"<summary>{title}</summary>", "", *body, "", "</details>"]
    if name == "caption":
        return [f"**{words['figure']}.** {' '.join(line.strip() for line in body)}"]
    if name == "math":
        return ["$$", *body, "$$"]
    raise ValueError(
        f"a notebook cannot show the directive {{{name}}}; it knows admonition, note, dropdown, math"
    )


def convert(lines: list[str], language: str) -> list[str | tuple[str, str]]:
    """MyST lines as Markdown lines; a `literalinclude` becomes a pair (module, name)."""
    result: list[str | tuple[str, str]] = []
    i = 0
    while i < len(lines):
        match = FENCE.match(lines[i])
        if not match:
            if lines[i].startswith("```"):  # an ordinary block of code stays as it is
                end = next(
                    (j for j in range(i + 1, len(lines)) if lines[j].startswith("```")), len(lines) - 1
                )
                result.extend(lines[i : end + 1])
                i = end + 1
                continue
            if not re.fullmatch(r"\([\w-]+\)=", lines[i]):
                result.append(inline(lines[i]))
            i += 1
            continue
        fence, name, title = match.groups()
        end = next((j for j in range(i + 1, len(lines)) if lines[j].rstrip() == fence), None)
        if end is None:
            raise ValueError(f"the directive {lines[i]!r} is not closed by a line {fence}")
        body, options = lines[i + 1 : end], {}
        while body and (option := OPTION.match(body[0])):
            options[option[1]] = option[2]
            body = body[1:]
        if name == "literalinclude":
            result.append((Path(title).stem, options["pyobject"]))
        else:
            inner = convert(body, language)
            while inner and inner[0] == "":
                inner = inner[1:]
            result.extend(directive(name, inline(title), options, inner, language))
        i = end + 1
    return result


def markdown_cells(text: str, language: str) -> list[NotebookNode]:
    """One MyST block as cells: Markdown, and a code cell where the library's own source is shown."""
    cells, lines = [], []

    def flush():
        source = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
        if source:
            cells.append(new_markdown_cell(source))
        lines.clear()

    for piece in convert(text.split("\n"), language):
        if isinstance(piece, tuple):
            flush()
            module, name = piece
            cells.append(
                new_code_cell(
                    SHOW.format(module=module, name=name), metadata={"tags": [MARK]}, execution_count=None
                )
            )
        else:
            lines.append(piece)
    flush()
    return cells


def normalise(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """What is stored of a cell's outputs: text, without pictures, streams in one piece."""
    kept: list[NotebookNode] = []
    for output in outputs:
        if output.output_type == "stream":
            if kept and kept[-1].output_type == "stream" and kept[-1].name == output.name:
                kept[-1].text += output.text
                continue
            kept.append(new_output("stream", name=output.name, text=output.text))
        elif output.output_type in ("display_data", "execute_result"):
            data = {kind: value for kind, value in output.data.items() if kind in KEPT_OUTPUTS}
            kept.append(new_output(output.output_type, data=data))
        else:
            raise ValueError(
                f"a stored cell must not raise, got {output.get('ename')}: {output.get('evalue')}"
            )
    return kept


def notebook(source: NotebookNode, language: str) -> NotebookNode:
    """The notebook for a chapter read from its source, with the outputs that its code cells carry."""
    cells = [new_code_cell(SETUP.format(address=install_address()).rstrip("\n"))]
    for cell in source.cells:
        if cell.cell_type == "markdown":
            cells.extend(markdown_cells(cell.source, language))
            continue
        tags = cell.metadata.get("tags", [])
        stored = [] if MARK in tags else normalise(cell.get("outputs", []))
        cells.append(new_code_cell(cell.source, metadata={"tags": tags} if tags else {}, outputs=stored))
    count, taken = 0, set()
    for cell in cells:
        cell.id = cell_id(cell.source, "code" if cell.cell_type == "code" else "text", taken)
        if cell.cell_type == "code" and MARK not in cell.metadata.get("tags", []):
            count += 1
            cell.execution_count = count
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = count
    return new_notebook(
        cells=cells,
        metadata={
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
    )


def read_source(path: Path) -> NotebookNode:
    """A chapter's source as MyST-NB reads it, without outputs."""
    from myst_nb.core.read import myst_nb_reader_plugin

    return myst_nb_reader_plugin(str(path))


def without_address(text: str) -> str:
    """A notebook's text without the book's home: a fork has another one, and that alone is no difference."""
    return re.sub(r"git\+https://[^\"\\@]+@", "git+HOME@", text)


def write_all(executed_chapters: Path) -> list[Path]:
    """Write every chapter's notebook from the cache in that folder; return those whose bytes changed."""
    from jupyter_cache import get_cache

    cache = get_cache(executed_chapters)
    written = []
    for path in sorted(ROOT.glob("chapters/*/[0-9][0-9]_*.md")):
        _, executed = cache.merge_match_into_notebook(read_source(path))
        result = notebook(executed, path.parent.name)
        nbformat.validate(result)
        text = nbformat.writes(result, version=4, ensure_ascii=False).rstrip("\n") + "\n"
        target = path.with_suffix(".ipynb")
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
            written.append(target)
    return written
