"""What a file is by the first bytes, whatever the name says."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

from airflow_provider_ch_s3.files.file_format import FORMATS
from airflow_provider_ch_s3.files.source import SourceFile

# How much of a file is looked at: some lines of text.
HEAD_BYTES = 8 * 1024

# How files with these extensions begin.
COMPRESSION_MARKS = {
    "gz": b"\x1f\x8b",
    "zst": b"\x28\xb5\x2f\xfd",
    "lz4": b"\x04\x22\x4d\x18",
    "xz": b"\xfd7zXZ\x00",
    "bz2": b"BZh",
}

UTF8_MARK = b"\xef\xbb\xbf"
"""The byte order mark at the beginning of a text in UTF-8, written by some programs."""

# A text may begin with the letters of these, too, but has no control characters after them.
_LETTERS = tuple((one.first_bytes, f"{one.name} data") for one in FORMATS if one.first_bytes)
_MARKS = (
    (COMPRESSION_MARKS["gz"], "gzip data"),
    (b"PK\x03\x04", "a zip archive (or an Excel file)"),
    (COMPRESSION_MARKS["zst"], "Zstandard data"),
    (COMPRESSION_MARKS["lz4"], "LZ4 data"),
    (COMPRESSION_MARKS["xz"], "xz data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!", "a RAR archive"),
    (b"%PDF-", "a PDF document"),
    (b"\xd0\xcf\x11\xe0", "an Excel or Word file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"\xff\xfe", "text in UTF-16"),
    (b"\xfe\xff", "text in UTF-16"),
)
# What no text begins with, by its first bytes.
BINARY_MARKS = tuple(mark[:4] for mark, _ in _MARKS if any(byte < 9 or byte > 126 for byte in mark[:4]))
_TAR = re.compile(rb".{257}ustar(?:\0|  \0)", re.DOTALL)
_BZIP2 = re.compile(rb"BZh[1-9]1AY&SY")
_HTML = re.compile(rb"(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_XML = re.compile(rb"<\?xml\s|<Error>\s*<Code>")
_META = re.compile(rb'\{\s*"meta"\s*:\s*\[\s*\{\s*"name"')
_ERROR_CODE = re.compile(rb"<Error>\s*<Code>([^<]{1,80})")


@dataclass(frozen=True, kw_only=True)
class Head:
    """The first bytes of a file, decompressed.

    :param content: at most ``HEAD_BYTES``; all of a shorter file.
    """

    file: SourceFile
    content: bytes

    @property
    def is_marked(self) -> bool:
        """Whether the text begins with the byte order mark of UTF-8."""
        return self.content.startswith(UTF8_MARK)

    @property
    def is_utf8(self) -> bool:
        """Whether the text is UTF-8, whatever the head has of the last character."""
        try:
            codecs.getincrementaldecoder("utf-8")().decode(self.content)
        except UnicodeDecodeError:
            return False
        return True

    @property
    def is_whole(self) -> bool:
        """Whether these are all bytes of the file."""
        return len(self.content) < HEAD_BYTES

    def lines(self, encoding: str = "utf-8") -> list[str]:
        """Return the lines, without the byte order mark, and without a line that goes on after the head."""
        text = self.content.removeprefix(UTF8_MARK).decode(encoding, errors="replace")
        lines = re.split(r"\r\n|\n|\r(?!\n)", text)
        return lines[:-1] if not self.is_whole or not lines[-1] else lines


def is_blank(content: bytes, *, is_json: bool) -> bool:
    """Whether a whole file has no row: only white space and, in JSON, an empty list."""
    text = content.removeprefix(UTF8_MARK).strip()
    return not text or (is_json and re.fullmatch(rb"\[\s*\]", text) is not None)


def states_types(content: bytes) -> bool:
    """Whether JSON begins with the names and types of columns, as ClickHouse's formats JSON and JSONCompact do."""
    return _META.match(content.lstrip()) is not None


def is_text(content: bytes) -> bool:
    """Whether first bytes have no control characters except white space."""
    return not any(byte < 9 or 13 < byte < 32 for byte in content[:64])


def name_other_content(content: bytes) -> str:
    """Name the kind of file that first bytes belong to; '' if the file may be CSV, TSV or JSON."""
    for mark, name in (*_MARKS, *(() if is_text(content) else _LETTERS)):
        if content.startswith(mark):
            return name
    if _BZIP2.match(content):
        return "bzip2 data"
    if _TAR.match(content):
        return "a tar archive"
    text = content.removeprefix(UTF8_MARK).lstrip()
    if code := _ERROR_CODE.search(text[:1024]):
        return f"an error message of a store ({code[1].decode(errors='replace')})"
    if _HTML.match(text):
        return "a page in HTML"
    if _XML.match(text):
        return "a document in XML"
    return "text in UTF-16" if _is_wide(content[:256]) else ""


def _is_wide(content: bytes) -> bool:
    """Whether nearly every second byte is zero, as in Latin text in UTF-16 without a byte order mark."""
    pairs = len(content) // 2
    return pairs >= 2 and max(content[start::2].count(0) for start in (0, 1)) > 0.9 * pairs


def show_head(content: bytes) -> str:
    """Show the very first bytes, for messages."""
    return repr(content[:32].decode("latin-1"))
