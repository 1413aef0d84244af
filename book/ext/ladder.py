"""`{ladder}`: the equality ladder as a table, from the file that `make ladder` writes."""

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.util.docutils import SphinxDirective

RESULTS = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results" / "ladder.json"
HEADS = {
    "en": ("ours", "reference", "type", "outputs differ by", "gradients differ by"),
    "ko": ("이 책의 구현", "비교 대상", "자료형", "출력의 차이", "기울기의 차이"),
}


def rounded(difference: float | None) -> str:
    """One digit is enough for a difference, and the same on every machine; None: not compared."""
    return "–" if difference is None else "0" if difference == 0 else f"{difference:.0e}"


class Ladder(SphinxDirective, Directive):
    def run(self):
        self.env.note_dependency(str(RESULTS))
        rungs = json.loads(RESULTS.read_text(encoding="utf-8"))["rungs"]
        group = nodes.tgroup(cols=5)
        group.extend(nodes.colspec(colwidth=width) for width in (26, 30, 10, 17, 17))
        head, body = nodes.thead(), nodes.tbody()
        head += self.row(HEADS[self.config.language])
        for rung in rungs:
            cells = (rung["ours"], rung["reference"], rung["dtype"])
            body += self.row((*cells, rounded(rung["value"]), rounded(rung["gradient"])), code=2)
        group += [head, body]
        return [nodes.table("", group, classes=["ladder"])]

    @staticmethod
    def row(cells, code=0):
        """A row; the first `code` cells are names of the library or of a reference."""
        row = nodes.row()
        for number, text in enumerate(cells):
            node = nodes.literal(text, text) if number < code else nodes.Text(text)
            row += nodes.entry("", nodes.paragraph("", "", node))
        return row


def setup(app):
    app.add_directive("ladder", Ladder)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
