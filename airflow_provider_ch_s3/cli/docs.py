"""``ch-s3 docs``: list the pages of this package, or print a page; the page ``reference`` lists its own pages."""

from __future__ import annotations

import argparse
import difflib
import sys
from importlib.resources import files

from airflow_provider_ch_s3.cli.parser import Subparsers
from airflow_provider_ch_s3.cli.screen import print_table
from airflow_provider_ch_s3.errors import ConfigError

# The site's own: a list of pages, and a page that includes the changelog.
NO_PAGES = {"index", "changelog"}


def add_parser(subparsers: Subparsers) -> None:
    """Register ``docs``."""
    parser = subparsers.add_parser(
        "docs", help="list the pages of the documentation, or print one", description=__doc__
    )
    parser.add_argument("page", nargs="?", metavar="PAGE", help="as the list names it, such as permissions")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List the pages, or print a page."""
    pages = read_pages()
    if args.page is None:
        titles = [(name, text.partition("\n")[0].lstrip("# ")) for name, text in pages.items() if "/" not in name]
        print_table(("page", "title"), titles)
        return 0
    name = args.page.removesuffix(".md").removeprefix("docs/")
    if name not in pages:
        near = difflib.get_close_matches(name, pages, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else "`ch-s3 docs` lists the pages"
        raise ConfigError("argument-invalid", f"there is no page {args.page!r}; {remedy}")
    _print_page(pages[name])
    return 0


def read_pages() -> dict[str, str]:
    """Read the pages: name, such as ``operator`` or ``reference/merge``, → Markdown."""
    folder = files("airflow_provider_ch_s3.docs")
    found = {
        f"{prefix}{path.name.removesuffix('.md')}": path.read_text()
        for prefix, below in (("", folder), ("reference/", folder / "reference"))
        for path in sorted(below.iterdir(), key=lambda path: path.name)
        if path.name.endswith(".md")
    }
    return {name: text for name, text in found.items() if name not in NO_PAGES}


def _print_page(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    with console.pager(styles=True):
        console.print(Markdown(text))
