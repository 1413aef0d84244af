"""A section's address is its explicit label, so that it is the same in both languages and survives rewording."""

from docutils import nodes
from sphinx.transforms import SphinxTransform


class LabelFirst(SphinxTransform):
    """Put the label written before a heading first among the section's ids: permalinks and contents use it."""

    default_priority = 800  # after the labels have been moved onto their sections

    def apply(self) -> None:
        for section in self.document.findall(nodes.section):
            explicit = [
                self.document.nameids[name]
                for name, is_explicit in self.document.nametypes.items()
                if is_explicit and self.document.nameids.get(name) in section["ids"]
            ]
            if explicit:
                section["ids"] = explicit + [i for i in section["ids"] if i not in explicit]


def setup(app):
    app.add_transform(LabelFirst)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
