"""How the site is made of these pages, the README and the docstrings: `make docs`."""

from importlib.metadata import version as version_of

from sphinx.application import Sphinx

project = "byref"
release = version_of("byref")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]  # the list of pages for those who read them in the repository
html_theme = "furo"
html_title = f"byref {release}"
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
    """Have the pages name what is on the site."""
    app.connect("source-read", lambda _app, _page, source: _rename(source))
    app.connect("include-read", lambda _app, _path, _page, source: _rename(source))


def _rename(source: list[str]) -> None:
    for there, here in PAGES.items():
        source[0] = source[0].replace(there, here)
