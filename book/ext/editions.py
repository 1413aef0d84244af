"""One book in two languages: short addresses, the switch between them, and links that follow the book's home.

A page `chapters/en/05_name` is published as `/en/05_name.html`, its Korean twin as `/ko/05_name.html`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

import sphinx_book_theme
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from sphinx import locale
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.search import IndexBuilder
from sphinx.util import logging

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "book"))
from home import home, pages_url

OTHER = {"en": ("ko", "한국어", "Language"), "ko": ("en", "English", "언어")}
logger = logging.getLogger(__name__)
SOURCE_FOLDER = re.compile(r"^(?:chapters|book|exercises)/(?:en|ko)/")


def short(docname: str) -> str:
    """The page's address below its edition, without the suffix."""
    if docname.startswith("exercises/"):
        return docname.split("/")[-1][:2] + "_exercises"
    return SOURCE_FOLDER.sub("", docname)


class ShortNames(IndexBuilder):
    """A search index that names the pages by their addresses, for the browser finds them by name."""

    def freeze(self):
        frozen = super().freeze()
        return frozen | {"docnames": [short(name) for name in frozen["docnames"]]}

    def load(self, stream, format):
        frozen = format.load(stream)
        long_names = {short(name): name for name in self.env.all_docs}
        frozen["docnames"] = [long_names.get(name, name) for name in frozen["docnames"]]

        class Loaded:
            load = staticmethod(lambda _stream: frozen)

        super().load(stream, Loaded)


class EditionBuilder(StandaloneHTMLBuilder):
    """Sphinx's HTML builder with short addresses."""

    name = "html"

    def get_target_uri(self, docname, typ=None):
        return super().get_target_uri(short(docname), typ)

    def get_outfilename(self, pagename):
        return super().get_outfilename(short(pagename))

    def prepare_writing(self, docnames):
        super().prepare_writing(docnames)
        if self.indexer is not None:
            self.indexer = ShortNames(
                self.env,
                self.config.html_search_language or self.config.language,
                self.config.html_search_options,
                self.config.html_search_scorer,
            )
            self.load_indexer(docnames)


def execution_key() -> str:
    """A name for all that decides what a chapter prints besides its own cells: the library, the lock, the weights."""
    digest = hashlib.sha256()
    pins = [ROOT / name for name in ("constraints.txt", "pyproject.toml", "weights.txt")]
    files = [*pins, *sorted((ROOT / "src").rglob("*"))]
    for path in files:
        if "teaching" in path.parts or path.name.startswith("exercises_"):
            continue  # no chapter prints what grades exercises
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path):
            digest.update(str(path.relative_to(ROOT)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Where executed chapters are kept: another folder for another library or lock, so nothing stale is shown."""
    return ROOT / "_build" / "executed" / execution_key()


def follow_home(app, config):
    address = home()
    config.nb_execution_cache_path = str(cache_folder())
    config.html_theme_options["repository_url"] = address
    config.numfig = False  # Jupyter Book turns it on; the numbers would run on from chapter to chapter
    config.html_baseurl = f"{pages_url(address)}{config.language}/"
    config.ogp_site_url = config.html_baseurl


def own_words(app, config):
    """Put the book's own words before the theme's in the interface's catalogue."""
    folder = ROOT / "book" / "locale"
    for source in folder.glob("*/LC_MESSAGES/booktheme.po"):
        with source.open("rb") as catalogue, source.with_suffix(".mo").open("wb") as compiled:
            write_mo(compiled, read_po(catalogue))
    locale.translators.pop(("general", "booktheme"), None)
    app.add_message_catalog("booktheme", str(folder))
    app.add_message_catalog(
        "booktheme", str(Path(sphinx_book_theme.get_html_theme_path()) / "static" / "locales")
    )


def page_context(app, pagename, templatename, context, doctree):
    language = app.config.language
    other, name, label = OTHER[language]
    twin = pagename.replace(f"/{language}/", f"/{other}/", 1)
    exists = SOURCE_FOLDER.match(pagename) and (ROOT / f"{twin}.md").exists()
    page = f"{short(pagename)}.html" if exists or pagename in ("search", "genindex") else "index.html"
    base = app.config.html_baseurl.removesuffix(f"{language}/")
    here = f"{short(pagename)}.html"
    context["pageurl"] = f"{base}{language}/{here}"
    context["edition"] = {
        "other": other,
        "name": name,
        "label": label,
        "url": f"{context['content_root']}../{other}/{page}",
        "alternates": {language: f"{base}{language}/{here}", other: f"{base}{other}/{page}"}
        if exists
        else {},
        "default": base,
    }


def finish_buttons(app, pagename, templatename, context, doctree):
    """Offer the committed notebook for download instead of the build's own, which only MyST can show."""
    if not pagename.startswith("chapters/"):
        return
    notebook = ROOT / f"{pagename}.ipynb"
    if not notebook.exists():
        logger.warning(
            "%s is missing, so its Colab button leads nowhere: run `make notebooks`", notebook.name
        )
        return
    for group in context["header_buttons"]:
        for button in group.get("buttons", []):
            if button.get("label") == "download-notebook-button":
                button["url"] = f"{short(pagename)}.ipynb"


def copy_notebooks(app, exception):
    """Every notebook, every time: a page that did not change is not written again, its notebook may be new."""
    if exception is None and app.builder.name == "html":
        for notebook in (ROOT / "chapters" / app.config.language).glob("*.ipynb"):
            shutil.copyfile(notebook, Path(app.outdir) / notebook.name)


def setup(app):
    app.add_builder(EditionBuilder, override=True)
    app.connect("config-inited", follow_home, priority=900)
    app.connect("config-inited", own_words, priority=900)
    app.connect("html-page-context", page_context)
    app.connect("html-page-context", finish_buttons, priority=900)
    app.connect("build-finished", copy_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
