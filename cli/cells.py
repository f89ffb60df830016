"""Text as it may be put into a cell of a terminal: what is shown of a label, how many columns it takes, how it is cut.

Terminals, and the tables they come with, differ on sequences: a family joined from three emoji is 2 columns in one and 6 in
another. So labels are reduced to what all agree on: emoji lose what joins them, their skin tones and variation selectors, a
flag is shown as the two letters it is made of, a keycap as its key. What is left has the width of its characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from rich.cells import cell_len

JOINERS_AND_SELECTORS = re.compile("[\u034f\u180b-\u180f\ufe00-\ufe0f\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]")
REGIONAL_INDICATOR = re.compile("[\U0001f1e6-\U0001f1ff]")
# format characters (joiners, bidi controls), controls beyond ASCII, halves of a character, enclosing marks, line separators
UNSEEN = ("Cf", "Cc", "Cs", "Me", "Zl", "Zp")
MOST_MARKS = 2  # accents on one letter; more of them would climb into the lines above
LONGEST_NAME, MOST_STAIRS = 24, 12  # of stairs: columns of a name, and lines; if they need more, names are shortened
SPACE, EMPTY, LONE_MARK = "␣", "∅", "◌"


def label(text: str, spaces: bool = False) -> str:
    """What is shown of a token: one line without controls, escapes or bidi controls, of characters whose width is certain.

    Line ends, tabs and escapes are shown as their pictures (␤ ␉ ␛). Spaces at the ends are left out, or shown as ▁ with
    `spaces`, as pieces are usually written; what consists of spaces is ␣, no text at all ∅, and what consists of
    unseen characters the number of the first (U+200D). label(label(text)) is label(text).
    """
    seen = JOINERS_AND_SELECTORS.sub("", text)
    seen = REGIONAL_INDICATOR.sub(lambda match: chr(ord(match[0]) - 0x1F1E6 + ord("A")), seen)
    shown = unicodedata.normalize("NFC", "".join(map(_picture, seen)))
    if not shown:
        return f"U+{ord(text[0]):04X}" if text else EMPTY
    if not shown.strip(" "):
        return SPACE
    ends = re.sub("^ +| +$", "▁" if spaces else "", shown)
    return _few_marks(re.sub(" +", " ", ends))


def _picture(character: str) -> str:
    category = unicodedata.category(character)
    if character == "\n":
        return "␤"
    if character < " ":
        return chr(0x2400 + ord(character))
    if character == "\x7f":
        return "␡"
    return "" if category in UNSEEN else " " if category == "Zs" else character


def _few_marks(text: str) -> str:
    """Marks without a letter get one to stand on (◌), a letter keeps its first few."""
    kept, marks = "", MOST_MARKS
    for character in text:
        if cell_len(character):
            marks = 0
        else:
            marks += 1
            if not kept:
                kept, marks = LONE_MARK, 1
            if marks > MOST_MARKS:
                continue
        kept += character
    return kept


def cells(text: str) -> int:
    """Columns of a terminal that a text takes: two for a Chinese character or an emoji, none for an accent."""
    return cell_len(text)


def shorten(text: str, columns: int, mark: str = "…") -> str:
    """The text, or as much of its beginning as fits into so many columns with the mark that says so."""
    if cells(text) <= columns:
        return text
    if columns < cells(mark):
        return ""
    kept, used = "", cells(mark)
    for character in text:
        used += cells(character)
        if used > columns:
            break
        kept += character
    return kept + mark


def pad(text: str, columns: int, right: bool = False) -> str:
    """The text with spaces behind it, or before it, until it takes so many columns."""
    spaces = " " * (columns - cells(text))
    return spaces + text if right else text + spaces


def flow(items: Iterable[str], columns: int, between: str = " ", mark: str = "…") -> list[str]:
    """Items one after another in lines of at most so many columns; an item is never divided, only shortened if longer
    than a line. `between` stands between two items, without its spaces at the end of a line."""
    lines: list[str] = []
    end = between.rstrip()
    for item in items:
        if lines and cells(lines[-1] + between + item + end) <= columns:
            lines[-1] += between + item
            continue
        if lines:
            lines[-1] += end
        lines.append(shorten(item, columns - cells(end), mark))
    return lines


def stairs(names: Sequence[str], step: int, room: int, down: str = "│", mark: str = "…") -> list[str]:
    """Lines with the name of column j beginning at step · j, from which a line goes down to the column. `room` is how
    far the last may reach. Names share a line where no name is in the way of a line down."""
    for longest in range(LONGEST_NAME, step - 2, -1):
        short = [shorten(name, min(longest, room - step * j), mark) for j, name in enumerate(names)]
        heights: list[int] = []
        ends: list[int] = []
        for j, name in enumerate(short):
            x = step * j
            before = list(zip(heights, ends, strict=True))
            height = max((h + 1 for h, end in before if end > x), default=0)
            while (height, x) in before:  # would touch the name before it
                height += 1
            heights.append(height)
            ends.append(x + cells(name))
        if max(heights) < MOST_STAIRS:
            break
    lines = []
    for height in range(max(heights) + 1):
        line = ""
        for j, name in enumerate(short):
            if heights[j] <= height:
                line = pad(line, step * j) + (name if heights[j] == height else down)
        lines.append(line)
    return lines
