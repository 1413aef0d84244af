"""Tables of results: `{ladder}` from the file that `make ladder` writes, `{measured}` from those of `make bench`
and `make real-data`."""

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.util.docutils import SphinxDirective

FOLDER = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results"
HEADS = {
    "ladder": {
        "en": ("ours", "reference", "type", "outputs differ by", "gradients differ by"),
        "ko": ("이 책의 구현", "비교 대상", "자료형", "출력의 차이", "기울기의 차이"),
    },
    "speed": {
        "en": (
            "layer",
            "length",
            "pass",
            "reference",
            "ours (ms)",
            "reference (ms)",
            "time, ours ÷ reference",
        ),
        "ko": (
            "층",
            "길이",
            "계산",
            "비교 대상",
            "이 책 (ms)",
            "비교 대상 (ms)",
            "시간의 비, 이 책 ÷ 비교 대상",
        ),
    },
    "training": {
        "en": ("reference", "ours (ms)", "reference (ms)", "products alone (ms)", "time, ours ÷ reference"),
        "ko": ("비교 대상", "이 책 (ms)", "비교 대상 (ms)", "행렬 곱만 (ms)", "시간의 비, 이 책 ÷ 비교 대상"),
    },
    "generation": {
        "en": (
            "model",
            "B",
            "ours",
            "Hugging Face",
            "products alone",
            "speed, ours ÷ theirs",
            "memory (MiB)",
        ),
        "ko": (
            "모델",
            "B",
            "이 책",
            "Hugging Face",
            "행렬 곱만",
            "속도의 비, 이 책 ÷ Hugging Face",
            "메모리 (MiB)",
        ),
    },
    "real_data": {
        "en": ("data", "rows (train / test)", "measure", "seeds 0, 1, 2", "bag of words"),
        "ko": ("데이터", "행 (학습 / 테스트)", "척도", "시드 0, 1, 2", "단어 가방"),
    },
}
WORDS = {  # what the benchmarks write in English
    "attention": "어텐션",
    "attention with weights": "어텐션, 가중치 포함",
    "encoder layer": "인코더 층",
    "forward": "순전파",
    "forward+backward": "순전파와 역전파",
    "accuracy": "정확도",
    "GPT-2's size": "GPT-2 크기",
}


def read(name: str) -> dict | list:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def rounded(difference: float | None) -> str:
    """One digit is enough for a difference, and the same on every machine; None: not compared."""
    return "–" if difference is None else "0" if difference == 0 else f"{difference:.0e}"


def spread(row: dict) -> str:
    low, high = row["quartiles"]
    return f"{row['ratio']:.2f} ({low:.2f}–{high:.2f})"


def ladder() -> list[tuple]:
    return [
        (r["ours"], r["reference"], r["dtype"], rounded(r["value"]), rounded(r["gradient"]))
        for r in read("ladder")["rungs"]
    ]


def speed() -> list[tuple]:
    return [
        (
            r["what"], r["length"], r["pass"], {"torch": "PyTorch", "keras": "Keras"}[r["reference"]],
            f"{r['ours_ms']:.0f}", f"{r['reference_ms']:.0f}", spread(r),
        )
        for r in read("speed")["rows"]
    ]  # fmt: skip


def training() -> list[tuple]:
    return [
        (r["against"], *(f"{r['ms'][who]:.0f}" for who in ("ours", "theirs", "products")), spread(r))
        for r in read("training")["rows"]
    ]


def generation() -> list[tuple]:
    return [
        (
            r["model"], r["batch"], *(f"{r['tokens_per_second'][who]:.1f}" for who in ("ours", "theirs", "products")),
            spread(r), f"{r['peak_mib']['ours']:.0f} / {r['peak_mib']['theirs']:.0f}",
        )
        for r in read("generation")["rows"]
    ]  # fmt: skip


def real_data() -> list[tuple]:
    rows, found = [], read("real_data")
    names = {"tatoeba": "Tatoeba", "nsmc-small": "NSMC 20,000 / 5,000", "nsmc": "NSMC"}
    for job, name in names.items():
        runs = [run for run in found if run["job"] == job]
        sizes = runs[0]["data"]["rows"]
        size = f"{sizes['train']:,} / {sizes['test']:,}"
        for measure, form in (("bleu", "{:.1f}"), ("chrf", "{:.1f}"), ("accuracy", "{:.3f}")):
            if measure not in runs[0]["test"]:
                continue
            ours = ", ".join(form.format(run["test"][measure]) for run in runs)
            bags = [run["test"].get(f"bag_of_words_{measure}") for run in runs]
            bag = "–" if None in bags else ", ".join(form.format(one) for one in bags)
            shown = {"bleu": "BLEU", "chrf": "chrF", "accuracy": "accuracy"}[measure]
            rows.append((name, size, shown, ours, bag))
    return rows


TABLES = {
    "ladder": ladder,
    "speed": speed,
    "training": training,
    "generation": generation,
    "real_data": real_data,
}
CODE = {"ladder": 2}  # so many cells of a row are names of code


def table(name: str, language: str) -> nodes.table:
    heads, rows = HEADS[name][language], TABLES[name]()
    if language == "ko":
        rows = [tuple(WORDS.get(cell, cell) for cell in row) for row in rows]
    group = nodes.tgroup(cols=len(heads))
    group.extend(
        nodes.colspec(colwidth=max(len(str(row[column])) for row in rows) + 2) for column in range(len(heads))
    )
    head, body = nodes.thead(), nodes.tbody()
    head += _row(heads)
    for cells in rows:
        body += _row(cells, CODE.get(name, 0))
    group += [head, body]
    return nodes.table("", group, classes=["results"])


def _row(cells: tuple, code: int = 0) -> nodes.row:
    row = nodes.row()
    for number, cell in enumerate(cells):
        text = str(cell)
        node = nodes.literal(text, text) if number < code else nodes.Text(text)
        row += nodes.entry("", nodes.paragraph("", "", node))
    return row


class Ladder(SphinxDirective, Directive):
    def run(self):
        return self.shown("ladder")

    def shown(self, name: str) -> list:
        self.env.note_dependency(str(FOLDER / f"{name}.json"))
        return [table(name, self.config.language)]


class Measured(Ladder):
    """`{measured} speed`, `training`, `generation` or `real_data`."""

    required_arguments = 1

    def run(self):
        (name,) = self.arguments
        if name not in TABLES:
            raise self.error(f"{{measured}} needs one of {', '.join(TABLES)}, got {name!r}")
        return self.shown(name)


def setup(app):
    app.add_directive("ladder", Ladder)
    app.add_directive("measured", Measured)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
