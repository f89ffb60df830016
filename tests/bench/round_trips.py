"""Real documents through `tx translate`'s formats and back, with no model: what must stay, stays.

    python tests/bench/round_trips.py /usr/share/doc /usr/lib/python3 README.md

Each file that has the ending of a known format (and, with --text, each other file too, as plain text) is parsed and filled
  1. with its own texts: the result must be the file, byte for byte;
  2. with other letters in all its texts but in what is protected: parsed again, the result must have these texts, and all
     bytes outside of them as they were.
Files that are not UTF-8 or not of their format are counted, not checked. Exit status 1 if a file fails the first check.
"""

from __future__ import annotations

import argparse
import gzip
import string
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tx.model.errors import TxError
from tx.model.formats import by_ending, parse
from tx.model.formats.document import Document
from tx.model.formats.json_values import field_names

OTHER = str.maketrans(
    string.ascii_letters,
    string.ascii_lowercase[13:]
    + string.ascii_lowercase[:13]
    + string.ascii_uppercase[13:]
    + string.ascii_uppercase[:13],
)


def with_other_letters(document: Document) -> list[str]:
    """The texts of a document with each letter exchanged for another of its case, but in what is protected."""
    outputs = []
    for text, spans in zip(document.texts, document.protected, strict=True):
        parts, done = [], 0
        for start, end in spans:
            parts += [text[done:start].translate(OTHER), text[start:end]]
            done = end
        outputs.append("".join([*parts, text[done:].translate(OTHER)]))
    return outputs


def words(texts: Sequence[str], protected: Sequence[Sequence[tuple[int, int]]]) -> list[str]:
    """The texts without what is protected, in which there may be texts that are units too."""
    found = []
    for text, spans in zip(texts, protected, strict=True):
        for start, end in reversed(spans):
            text = f"{text[:start]}|{text[end:]}"
        found.append(text)
    return found


def around(document: Document) -> str:
    """What of a document is in no unit."""
    parts, done = [], 0
    for unit in document.units:
        if unit.start >= done:
            parts.append(document.source[done : unit.start])
            done = unit.end
    return "|".join([*parts, document.source[done:]])


def read(path: Path) -> str:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode("utf-8")


def open_document(path: Path, text: str, name: str) -> Document:
    fields: list[str] = []
    if name in ("json", "jsonl"):
        fields = field_names(text, lines=name == "jsonl")
    elif name in ("csv", "tsv"):
        fields = ["1"]
    return parse(name, text, fields=fields, target="zh")


def files_in(paths: list[Path], with_text: bool, largest: int) -> Iterator[tuple[Path, str]]:
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            plain = file.with_suffix("") if file.suffix == ".gz" else file
            name = by_ending(plain.name)
            if file.is_file() and (name != "text" or with_text or file in paths) and file.stat().st_size <= largest:
                yield file, name


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file or a folder")
    options.add_argument("--text", action="store_true", help="take files of no known format as plain text")
    options.add_argument("--largest", type=int, default=500_000, metavar="BYTES", help="leave out larger files")
    options.add_argument("-v", "--verbose", action="store_true", help="name every file")
    given = options.parse_args()
    counts: dict[str, Counter[str]] = {}
    failed = False
    for path, name in files_in(given.paths, given.text, given.largest):
        count = counts.setdefault(name, Counter())
        try:
            text = read(path)
            document = open_document(path, text, name)
        except (UnicodeDecodeError, TxError, OSError) as error:
            count["unreadable"] += 1
            if given.verbose:
                print(f"{path}: {error}")
            continue
        count["files"] += 1
        count["units"] += len(document.texts)
        count["not understood"] += len(document.problems)
        if document.fill(document.texts) != text:
            count["changed"] += 1
            failed = True
            print(f"{path}: CHANGED by its own texts")
        if name == "po":  # what is filled in is no unit any more
            continue
        outputs = with_other_letters(document)
        filled = document.fill(outputs)
        again = open_document(path, filled, name)
        subtitles = name in ("srt", "vtt")
        sound = subtitles or around(again) == around(document)
        count["units put in otherwise"] += len(document.problems)
        if words(again.texts, again.protected) != words(outputs, document.protected) or not sound:
            count["read otherwise after"] += 1
            print(f"{path}: read otherwise after its letters were exchanged")
        elif given.verbose:
            print(f"{path}: {len(document.texts)} units")
    for name, count in sorted(counts.items()):
        print(f"{name}: " + ", ".join(f"{number} {what}" for what, number in count.items()))
    return failed


if __name__ == "__main__":
    sys.exit(main())
