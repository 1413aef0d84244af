"""Notebooks are what their sources say, in both languages, and store what every machine prints."""

import json
import re

import nbformat
import notebooks
import pytest
from conftest import ROOT, chapter_sources
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebooks import MARK, convert, inline, markdown_cells, normalise, notebook, read_source, without_address

SOURCES = chapter_sources("en") + chapter_sources("ko")
IDS = [f"{path.parent.name}-{path.stem}" for path in SOURCES]
LARGEST_SHARE_OF_MARKED_CELLS = 0.15


def stored(path):
    return nbformat.read(path.with_suffix(".ipynb"), as_version=4)


def described(book):
    """All of a notebook but what running it brings and where the book lives."""
    return [
        (cell.id, cell.cell_type, without_address(cell.source), cell.get("execution_count"), cell.metadata)
        for cell in book.cells
    ], book.metadata


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_source_and_notebook_agree(path):
    fresh = notebook(read_source(path), path.parent.name)
    assert described(stored(path)) == described(fresh), "run `make notebooks`"


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_a_notebook_stores_text_and_no_picture(path):
    for cell in stored(path).cells:
        for output in cell.get("outputs", []):
            assert output.output_type in ("stream", "display_data", "execute_result")
            assert set(output.get("data", {})) <= set(notebooks.KEPT_OUTPUTS)
            assert "Warning" not in output.get("text", "")


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_only_marked_cells_are_without_a_count_and_they_store_nothing(path):
    counts = []
    for cell in stored(path).cells:
        if cell.cell_type != "code":
            continue
        if MARK in cell.metadata.get("tags", []):
            assert cell.execution_count is None and cell.outputs == []
        else:
            counts.append(cell.execution_count)
    assert counts == list(range(1, len(counts) + 1)), "a cell without a count is never compared"


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_few_cells_are_marked_and_each_is_asserted(path):
    code = [cell for cell in read_source(path).cells if cell.cell_type == "code"]
    marked = [i for i, cell in enumerate(code) if MARK in cell.metadata.get("tags", [])]
    assert len(marked) <= LARGEST_SHARE_OF_MARKED_CELLS * len(code), (
        f"{len(marked)} of {len(code)} code cells carry {MARK}; at most 15 % may, so one needs seven cells"
    )
    for i in marked:
        following = "\n".join(cell.source for cell in code[i : i + 3])
        assert re.search(r"^\s*assert ", following, re.MULTILINE), (
            f"nothing asserts what this cell measured:\n{code[i].source}"
        )


@pytest.mark.parametrize("path", chapter_sources("en"), ids=lambda path: path.stem)
def test_code_and_stored_outputs_are_the_same_in_both_languages(path):
    other = ROOT / "chapters" / "ko" / path.name

    def code(book):
        return [cell for cell in book.cells if cell.cell_type == "code"]

    assert code(stored(path)) == code(stored(other))


@pytest.mark.parametrize("path", SOURCES, ids=IDS)
def test_nothing_that_only_the_book_understands_is_left(path):
    for cell in stored(path).cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL)
            assert not re.search(
                r"^:{3,}|^\([\w-]+\)=$|\{(?:ref|eq|doc|term|numref)\}`|\]\(#|\.md[)#]", text, re.MULTILINE
            )


def test_a_set_up_cell_does_nothing_outside_colab_and_installs_the_library_alone(monkeypatch):
    book = notebook(new_notebook(), "en")
    assert [cell.cell_type for cell in book.cells] == ["code"]
    source = book.cells[0].source
    installs = re.findall(r"%pip install -q \"(git\+https://github\.com/[\w.-]+/[\w.-]+@v[\d.]+)\"", source)
    assert installs == [notebooks.install_address()]
    assert source.count("install") == 2  # the comment and the command
    namespace = {}
    exec(source.replace("%pip", "raise SystemExit  #"), namespace)
    assert set(namespace) == {"__builtins__", "sys"}


def test_boxes_become_quotes_and_answers_stay_collapsed():
    text = """:::{admonition} Predict
:class: predict
What comes **out**?

- a
:::

:::{dropdown} Answer
Nothing.
:::

:::{note}
Mind this.
:::

:::{caption}
:alt: A line.
It *falls*.
:::"""
    assert (
        "\n".join(convert(text.split("\n"), "en"))
        == """> **Predict**
>
> What comes **out**?
>
> - a

<details>
<summary>Answer</summary>

Nothing.

</details>

> **Note**
>
> Mind this.

**Figure.** It *falls*."""
    )


def test_labels_roles_and_links_become_text():
    assert convert(["(sdpa-masks)=", "## Masks"], "en") == ["## Masks"]
    assert inline("see {ref}`masks <sdpa-masks>` and [there](#sdpa-scale)") == "see masks and there"
    assert (
        inline("[chapter 05](05_scaled.md#sdpa-masks), [N](../../book/en/notation.md)")
        == "[chapter 05](05_scaled.ipynb), N"
    )
    assert inline("[six](../../exercises/en/05_scaled.md)") == "[six](../../exercises/en/05_scaled.ipynb)"
    assert inline("$$ (eq-one)") == "$$"
    assert inline("[paper](https://arxiv.org/abs/1706.03762)") == "[paper](https://arxiv.org/abs/1706.03762)"


def test_code_blocks_are_left_alone():
    lines = ["```python", "(label)=", ":::{note}", "```", "(label)="]
    assert convert(lines, "en") == lines[:4]


def test_the_librarys_source_becomes_a_marked_cell():
    text = "Before.\n\n```{literalinclude} ../../src/tutorial_lib/attention.py\n:pyobject: masked_softmax\n```\n\nAfter."
    before, code, after = markdown_cells(text, "en")
    assert (before.source, after.source) == ("Before.", "After.")
    assert code.metadata.tags == [MARK] and '.attention").masked_softmax' in code.source


def test_an_unknown_directive_is_an_error():
    with pytest.raises(ValueError, match=r"cannot show the directive \{tabs\}"):
        convert([":::{tabs}", ":::"], "en")
    with pytest.raises(ValueError, match="is not closed"):
        convert([":::{note}", "text"], "en")


def test_outputs_are_normalised():
    outputs = [
        new_output("stream", name="stdout", text="a\n"),
        new_output("stream", name="stdout", text="b\n"),
        new_output("display_data", data={"image/png": "iVBOR", "text/plain": "<Figure>"}, metadata={"x": 1}),
    ]
    kept = normalise(outputs)
    assert [output.get("text") for output in kept] == ["a\nb\n", None]
    assert kept[1].data == {"text/plain": "<Figure>"} and kept[1].metadata == {}
    with pytest.raises(ValueError, match="must not raise, got KeyError"):
        normalise([new_output("error", ename="KeyError", evalue="x", traceback=[])])


def test_ids_follow_the_text_and_not_the_place():
    cells = [new_code_cell("a = 1"), new_markdown_cell("Text."), new_code_cell("a = 1")]
    one = notebook(new_notebook(cells=cells), "en")
    two = notebook(new_notebook(cells=[new_code_cell("b = 2"), *cells]), "en")
    ids = [cell.id for cell in one.cells]
    assert len(set(ids)) == 4 and ids[3] == ids[1] + "-2"
    assert [cell.id for cell in two.cells][2:] == ids[1:]
    assert json.dumps(notebook(new_notebook(cells=cells), "en")) == json.dumps(one)
