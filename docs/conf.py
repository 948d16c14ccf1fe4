"""How the site is made of these pages, the README and the docstrings: `make docs`."""

from importlib.metadata import version as version_of

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.ext import napoleon

project = "byref"
release = version_of("byref")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]  # the list of pages for those who read them in the repository
html_theme = "furo"
html_title = f"byref {release}"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
myst_heading_anchors = 4
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
default_role = "code"

PAGES = {
    "](../README.md": "](index.md",
    "](docs/README.md": "](index.md",
    "](CHANGELOG.md": "](changelog.md",
    "](benchmarks/RESULTS.md": "](results.md",
    "](CONTRIBUTING.md": "](contributing.md",
    "](SECURITY.md": "](security.md",
    "](LICENSE": "](../LICENSE",
    "](../examples/backend/alembic)": "](../examples/backend/migrate.py)",
}
"""What is named otherwise on the site than in the repository."""


def setup(app: Sphinx) -> None:
    """Have the pages name what is on the site, and the reference say what docstrings say."""
    app.connect("source-read", lambda _app, _page, source: _rename(source))
    app.connect("include-read", lambda _app, _path, _page, source: _rename(source))
    for listener in app.events.listeners["autodoc-process-docstring"]:
        if listener.handler is napoleon._process_docstring:
            app.disconnect(listener.id)
    app.connect("autodoc-process-docstring", _with_sections)
    app.connect("doctree-read", lambda _app, page: _without_object(page))


def _rename(source: list[str]) -> None:
    for there, here in PAGES.items():
        source[0] = source[0].replace(there, here)


def _with_sections(app: Sphinx, what: str, name: str, object_: object, options: object, lines: list[str]) -> None:
    """Have napoleon find the sections of a docstring; of an attribute's it would take what is before a colon for its type."""
    if what not in ("attribute", "property"):
        napoleon._process_docstring(app, what, name, object_, options, lines)


def _without_object(page: nodes.document) -> None:
    """Leave out the base that all classes have."""
    for paragraph in [*page.findall(nodes.paragraph)]:
        if paragraph.astext() == "Bases: object":
            paragraph.parent.remove(paragraph)
