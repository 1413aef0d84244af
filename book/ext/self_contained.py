"""Nothing on a page comes from another host: mathematics from the site itself, no remote scripts."""

from pathlib import Path

import mathjax

# Only what renders TeX to HTML with its accessible explorer; the package holds every variant.
MATHJAX = Path(mathjax.__file__).parent / "static" / "mathjax"
UNUSED = [
    "mml-chtml.js", "mml-svg.js", "node-main.js", "tex-chtml*.js", "tex-mml-svg.js", "tex-svg*.js",
    "latest.js", "core.js", "loader.js", "startup.js", "adaptors", "output/svg*", "input/mml*", "input/asciimath*",
]  # fmt: skip


def serve_mathjax(app, config):
    config.html_static_path.append(str(MATHJAX))
    config.exclude_patterns.extend(f"es5/{pattern}" for pattern in UNUSED)
    config.exclude_patterns.extend(f"**/es5/{pattern}" for pattern in UNUSED)
    config.mathjax_path = "es5/tex-mml-chtml.js"


def drop_remote_scripts(app, pagename, templatename, context, doctree):
    """Leave out what Jupyter Book adds for live code, which this book does not use and which names a remote host."""
    context["script_files"] = [
        script
        for script in context["script_files"]
        if "thebe" not in str(script.filename or "").lower()
        and "thebe" not in script.attributes.get("body", "").lower()
    ]


def setup(app):
    app.connect("config-inited", serve_mathjax)
    app.connect("html-page-context", drop_remote_scripts, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
