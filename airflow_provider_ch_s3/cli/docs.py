"""``ch-s3 docs``: list the pages of this package, print a page, or search all pages for words.

The page ``reference`` lists its own pages.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files

from airflow_provider_ch_s3.cli.parser import Subparsers
from airflow_provider_ch_s3.cli.screen import print_table, print_text
from airflow_provider_ch_s3.common.text import did_you_mean
from airflow_provider_ch_s3.errors import ConfigError

# The site's own: a list of pages, and a page that includes the changelog.
NO_PAGES = {"index", "changelog"}
MOST_HITS = 20
_WIDTH = 80


def add_parser(subparsers: Subparsers) -> None:
    """Register ``docs``."""
    parser = subparsers.add_parser(
        "docs",
        help="list the pages of the documentation, print one, or search them",
        description=__doc__,
        examples=("ch-s3 docs permissions", "ch-s3 docs late file"),
    )
    parser.add_argument(
        "words",
        nargs="*",
        metavar="PAGE|WORDS",
        help="a page as the list names it, such as permissions; or words, or the code of an error, to search for",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List the pages, print a page, or list the sections with the words."""
    pages = read_pages()
    if not args.words:
        titles = [(name, text.partition("\n")[0].lstrip("# ")) for name, text in pages.items() if "/" not in name]
        print_table(("page", "title"), titles)
        return 0
    given = " ".join(args.words)
    name = given.removesuffix(".md").removeprefix("docs/")
    if name in pages:
        _print_page(pages[name])
        return 0
    if hits := search(pages, given.split()):
        more = [f"and {len(hits) - MOST_HITS} more; give more words"] if len(hits) > MOST_HITS else []
        print_text("\n".join([*hits[:MOST_HITS], *more]))
        return 0
    remedy = did_you_mean(name, pages, otherwise="`ch-s3 docs` lists the pages")
    raise ConfigError("argument-invalid", f"no page is called {given!r} or has these words; {remedy}")


def search(pages: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Find the sections with all words; return each section's heading, and the line with most words.

    :param words: beginnings of words.
    :returns: the sections; first where words are in the heading, then where words stand next to each other.
    """
    wanted = [re.compile(rf"(?<!\w){re.escape(word)}", re.IGNORECASE) for word in words]
    phrase = re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, words)), re.IGNORECASE)
    found = []
    for name, text in pages.items():
        for section in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
            if not all(word.search(section) for word in wanted):
                continue
            heading, *lines = section.splitlines()
            hit = max(lines, key=lambda line: sum(bool(word.search(line)) for word in wanted), default="").strip()
            weight = sum(bool(word.search(heading)) for word in wanted), len(phrase.findall(section))
            place = f"{name}: {heading.lstrip('# ')}"
            found.append((weight, f"{_shorten(place)}\n{_shorten(f'  {hit}')}".rstrip()))
    return [text for _, text in sorted(found, key=lambda one: one[0], reverse=True)]


def _shorten(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 2]} …"


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
