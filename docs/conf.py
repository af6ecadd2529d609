"""How the documentation is built: `sphinx-build -W docs build/docs`, without a network."""

project = "chimera"
author = "the chimera maintainers"
extensions = ["myst_parser"]
exclude_patterns = ["_build"]
nitpicky = True
myst_heading_anchors = 3
# A link to a file beside the documentation becomes a copy of that file in the built pages.
suppress_warnings: list[str] = []

html_theme = "furo"
html_title = "chimera"
html_show_sourcelink = False
html_copy_source = False
html_show_sphinx = False
