"""The words of a figure that a cell draws: `{caption}` right after the cell.

    :::{caption}
    :alt: What the picture shows to someone who cannot see it.
    What to see in it.
    :::

They stand outside the cell because they differ between the languages, while the cell, which the
execution cache keys on, does not.
"""

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.util import logging

logger = logging.getLogger(__name__)


class caption_node(nodes.General, nodes.Element):
    """Holds a figure's words until the figure before it takes them."""


class Caption(Directive):
    has_content = True
    option_spec = {"alt": directives.unchanged_required}

    def run(self):
        if not self.options.get("alt"):
            raise self.error("caption: the option :alt: is missing")
        node = caption_node(alt=" ".join(self.options["alt"].split()))
        node.source, node.line = self.state_machine.get_source_and_line(self.lineno)
        self.state.nested_parse(self.content, self.content_offset, node)
        return [node]


def give_words_to_figures(app, doctree):
    for number, words in enumerate(list(doctree.findall(caption_node)), start=1):
        before = words.previous_sibling()
        images = list(before.findall(nodes.image)) if before is not None else []
        if len(images) != 1:
            logger.warning(
                "a {caption} must follow a cell that draws one figure, this one follows %d",
                len(images),
                location=words,
            )
        for image in images:
            image["alt"] = words["alt"]
            figure = nodes.figure(ids=[f"figure-{number}"])
            image.replace_self(figure)
            figure += image
            paragraph = words.children[0] if words.children else nodes.paragraph()
            figure += nodes.caption("", "", *paragraph.children)
        words.parent.remove(words)
    for image in doctree.findall(nodes.image):
        if not image.get("alt"):
            logger.warning("a figure without alternative text: add a {caption} with :alt:", location=image)


def setup(app):
    app.add_node(caption_node)
    app.add_directive("caption", Caption)
    app.connect("doctree-read", give_words_to_figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
