"""The built site in Chromium: a server on this machine, pages that note what they asked for and complained of."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from home import home, pages_url

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "_build" / "site"
LANGUAGES = ("en", "ko")
BASE = "/" + pages_url(home()).split("/", 3)[3]  # the folder below which Pages serves the book

# Without these, Chromium looks for its maker's hosts and refuses to run as root.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium_path() -> str | None:
    """The system's Chromium or Chrome; the one without windows first, which needs less time."""
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def toc_pages(language: str) -> list[str]:
    """The addresses of all pages in an edition's table of contents, below /en/ or /ko/."""
    name = "_toc.yml" if language == "en" else "book/ko/_toc.yml"
    toc = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    files = [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]
    return [
        f"{Path(file).name[:2]}_exercises.html"
        if file.startswith("exercises/")
        else f"{Path(file).name}.html"
        for file in files
    ]


class Server(http.server.ThreadingHTTPServer):
    """Serves the site as GitHub Pages does: below a folder, with 404.html for what is not there."""


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def translate_path(self, path):
        below = path.removeprefix(BASE)
        return super().translate_path(f"/{below}" if path.startswith(BASE) else "/outside the book")

    def send_error(self, code, message=None, explain=None):
        page = SITE / "404.html"
        if code != 404 or not page.exists():
            return super().send_error(code, message, explain)
        body = page.read_bytes()
        self.send_response(404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@contextmanager
def serve():
    """The site's address on this machine."""
    server = Server(("127.0.0.1", 0), functools.partial(Handler, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{BASE.removesuffix('/')}"
    finally:
        server.shutdown()


@dataclass
class Log:
    """What a page asked for and what it complained of."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def open_page(browser, address: str | None = None, **options):
    """A page in a fresh profile, with its log; `options` are Playwright's context options."""
    context = browser.new_context(**options)
    page, log = context.new_page(), Log()
    page.on("request", lambda request: log.requests.append(request.url))
    page.on("console", lambda m: log.complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: log.complaints.append(str(error)))
    page.on(
        "response",
        lambda r: log.complaints.append(f"{r.status} {r.url}") if r.status >= 400 else None,
    )
    try:
        if address:
            page.goto(address, wait_until="load")
        yield page, log
    finally:
        context.close()


def wait_for_mathematics(page) -> None:
    """Until MathJax has set the page's formulas, if it has any."""
    page.wait_for_function(
        "!document.querySelector('.math') || document.querySelector('mjx-container') !== null", timeout=20_000
    )
