"""The build stops at a failing cell, every time, and shows nothing stale."""

import textwrap

import build
import editions
import nbformat
import pytest
from jupyter_cache import get_cache
from sphinx.testing.util import SphinxTestApp

HEAD = """\
---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# A page

"""


def cell(code):
    return f"```{{code-cell}} ipython3\n{textwrap.dedent(code).strip()}\n```\n\n"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A book of one chapter, to be filled by the test."""
    for name in ("constraints.txt", "pyproject.toml", "weights.txt"):
        (tmp_path / name).write_text("")
    for language in build.LANGUAGES:
        (tmp_path / "chapters" / language).mkdir(parents=True)
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setattr(editions, "ROOT", tmp_path)
    return tmp_path


def write_chapter(book, *cells):
    for language in build.LANGUAGES:
        page = book / "chapters" / language / "01_page.md"
        page.write_text(HEAD + "".join(map(cell, cells)), encoding="utf-8")


def test_a_failing_cell_fails_the_build_the_second_time_too(book, capsys):
    write_chapter(book, "print(1)", "raise KeyError('broken')")
    for _ in range(2):
        with pytest.raises(SystemExit, match="1 chapter"):
            build.execute()
        assert "KeyError" in capsys.readouterr().err
    write_chapter(book, "print(1)")
    build.execute()


def test_what_ran_is_not_run_again_until_the_library_or_the_lock_changes(book):
    runs = book / "runs"
    write_chapter(book, f"open({str(runs)!r}, 'a').write('x')")
    build.execute()
    build.execute()
    assert runs.read_text() == "x"
    (book / "src" / "module.py").write_text("a = 1\n")
    build.execute()
    assert runs.read_text() == "xx"
    (book / "constraints.txt").write_text("numpy==2.0\n")
    build.execute()
    assert runs.read_text() == "xxx"
    (book / "weights.txt").write_text("model==1.0\n")
    build.execute()
    assert runs.read_text() == "xxxx"
    assert len(list((book / "_build/executed").iterdir())) == 1, "old results are not kept"


def test_words_around_a_cell_do_not_run_it_again(book):
    runs = book / "runs"
    write_chapter(book, f"open({str(runs)!r}, 'a').write('x')")
    build.execute()
    page = book / "chapters/ko/01_page.md"
    page.write_text(page.read_text().replace("# A page", "# 한 쪽"), encoding="utf-8")
    build.execute()
    assert runs.read_text() == "x"


def test_cells_that_differ_between_the_languages_stop_the_build(book):
    write_chapter(book, "print(1)")
    korean = book / "chapters/ko/01_page.md"
    korean.write_text(korean.read_text().replace("print(1)", "print(2)"))
    with pytest.raises(SystemExit, match="01_page: code cell 1 is not the same in both languages"):
        build.execute()
    korean.unlink()
    with pytest.raises(SystemExit, match=r"chapters/ko/01_page\.md is missing"):
        build.execute()


PICTURE = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])"


def read_page(folder, body):
    """The doctree of a page with these cells, and the warnings of its build."""
    (folder / "index.md").write_text(HEAD + body, encoding="utf-8")
    (folder / "conf.py").write_text("")
    app = SphinxTestApp(
        srcdir=folder,
        confoverrides={
            "extensions": ["myst_nb", "captions", "anchors"],
            "myst_enable_extensions": ["colon_fence"],
        },
    )
    try:
        app.build()
        return app.env.get_doctree("index"), app.warning.getvalue()
    finally:
        app.cleanup()


def test_a_figure_takes_its_words_from_behind_the_cell(tmp_path):
    words = ":::{caption}\n:alt: A line that rises.\nIt *rises*.\n:::\n\n(my-label)=\n## 제목\n\nText.\n"
    doctree, warnings = read_page(tmp_path, cell(PICTURE) + words)
    assert warnings == ""
    from docutils import nodes

    (image,) = doctree.findall(nodes.image)
    assert image["alt"] == "A line that rises."
    assert image.parent["ids"] == ["figure-1"]
    assert image.parent.next_node(nodes.caption).astext() == "It rises."
    assert list(doctree.findall(nodes.section))[1]["ids"][0] == "my-label"


@pytest.mark.parametrize(
    "body,complaint",
    [
        (cell(PICTURE) + "Text.\n", "a figure without alternative text"),
        (
            cell("print(1)") + ":::{caption}\n:alt: Nothing.\nWords.\n:::\n",
            "must follow a cell that draws one figure",
        ),
        (cell(PICTURE) + ":::{caption}\nWords.\n:::\n", "the option :alt: is missing"),
    ],
)
def test_a_figure_without_words_is_complained_of(tmp_path, body, complaint):
    _, warnings = read_page(tmp_path, body)
    assert complaint in warnings


def test_the_cache_serves_both_languages(book):
    """One execution is enough because the cells are the same; the words around them do not count."""
    write_chapter(book, "print('once')")
    build.execute()
    from notebooks import read_source

    korean = book / "chapters/ko/01_page.md"
    korean.write_text(korean.read_text().replace("# A page", "# 한 쪽"), encoding="utf-8")
    _, executed = get_cache(editions.cache_folder()).merge_match_into_notebook(read_source(korean))
    assert executed.cells[-1].outputs == [nbformat.v4.new_output("stream", name="stdout", text="once\n")]
