"""Exercise pages: made from `exercises/<language>/NN_name.md` while Sphinx reads them.

The source on disk holds hidden tests too; what enters the book is made from it, with solutions or (when
the environment says BOOK_SOLUTIONS=0, for a course) without, and the source itself is not copied.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from sphinx.util import logging

logger = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "book"), str(ROOT / "src")]
from home import home  # noqa: E402

from tutorial_lib.teaching.pages import page  # noqa: E402
from tutorial_lib.teaching.source import read_set  # noqa: E402


def colab_url(docname: str) -> str:
    path = f"{home().removeprefix('https://')}/blob/main/{docname}.ipynb"
    return "https://colab.research.google.com/" + path.replace("github.com/", "github/", 1)


def write_page(app, docname, source):
    if docname.startswith("exercises/"):
        number = docname.split("/")[-1][:2]
        source[0] = page(
            read_set(ROOT / f"{docname}.md"),
            colab_url(docname),
            f"{number}_exercises.ipynb",
            solutions=app.config.exercise_solutions,
        )


def keep_source(app, pagename, templatename, context, doctree):
    """Leave the source out of `_sources/` and of the buttons; put the student's notebook beside the page."""
    if pagename.startswith("exercises/"):
        context["sourcename"] = ""
        number, notebook = pagename.split("/")[-1][:2], ROOT / f"{pagename}.ipynb"
        if notebook.exists():
            shutil.copyfile(notebook, Path(app.outdir) / f"{number}_exercises.ipynb")
        else:
            logger.warning("%s is missing, so its Colab button leads nowhere: run `make notebooks`", pagename)


def setup(app):
    app.add_config_value("exercise_solutions", os.environ.get("BOOK_SOLUTIONS", "1") != "0", "env", bool)
    app.connect("source-read", write_page)
    app.connect("html-page-context", keep_source, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
