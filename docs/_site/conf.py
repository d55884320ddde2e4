"""The site that ``make docs`` builds from the Markdown files of ``docs/``."""

project = "airflow-provider-ch-s3"
extensions = ["myst_parser"]
# Links to headings are checked down to this level.
myst_heading_anchors = 3

html_theme = "furo"
html_title = project
html_static_path = ["../_static"]
html_css_files = ["site.css"]
# The sources are in the repository.
html_copy_source = False
html_show_copyright = False
