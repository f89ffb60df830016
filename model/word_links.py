"""Which word of a text belongs to which of its translation: the alignments of its sentences, put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from . import alignment
from .errors import InputError
from .pair_maps import PairMaps, with_kept_map
from .results import Alignment, AttentionMap, Hypothesis
from .runtime import Job, Runtime


class Piece(NamedTuple):
    """A part of a text and of its translation: if it was searched for, the job, what its slots stand for, and the output."""

    source: str
    text: str
    job: Job | None = None
    kept: Sequence[str] = ()
    best: Hypothesis | None = None


def align_whole(runtime: Runtime, pieces: Sequence[Piece], whole: str, reverse_task: str | None) -> Alignment:
    """The words of a text and of its translation, and their links, given the pieces of both; `whole` is the translation.
    What was copied is linked to itself as one word.

    The words of a sentence are aligned as `Attender.align` does it, by the maps of both directions where the model has
    the other one, `reverse_task`."""
    maps = PairMaps(runtime)
    sources: list[tuple[int, int]] = []
    targets: list[tuple[int, int]] = []
    links: list[tuple[int, int]] = []
    at_source = 0
    for piece, at_target in zip(pieces, places_of([piece.text for piece in pieces], whole), strict=True):
        if at_target is not None:
            found = _align(maps, piece, reverse_task)
            links += [(s + len(sources), t + len(targets)) for s, t in found[2]]
            sources += [_trimmed(piece.source, a, b, at_source) for a, b in found[0]]
            targets += [_trimmed(piece.text, a, b, at_target) for a, b in found[1]]
        at_source += len(piece.source)
    return Alignment(tuple(sources), tuple(targets), tuple(sorted(links)))


def places_of(texts: Sequence[str], whole: str) -> list[int | None]:
    """Where each of the texts begins in `whole`, in which they follow each other, with a space more here or there; None
    for white space that was left out."""
    places: list[int | None] = []
    at = 0
    for text in texts:
        if text.isspace() and not whole.startswith(text, at):
            places.append(None)
            continue
        if not whole.startswith(text, at):
            at += 1
        places.append(at)
        at += len(text)
    return places


def _trimmed(text: str, start: int, end: int, offset: int) -> tuple[int, int]:
    """The place of a word without the spaces around it, moved by an offset."""
    word = text[start:end]
    first = start + len(word) - len(word.lstrip())
    return first + offset, first + len(word.strip()) + offset


Words = tuple[Sequence[tuple[int, int]], Sequence[tuple[int, int]], Sequence[tuple[int, int]]]


def _words(source: str, text: str) -> Words:
    """Both as one word, linked; none if there is nothing in them."""
    places = [
        (len(side) - len(side.lstrip()), len(side.rstrip())) for side in (source, text) if not side.isspace() and side
    ]
    return ([places[0]], [places[1]], [(0, 0)]) if len(places) == 2 else ([], [], [])


def _align(maps: PairMaps, piece: Piece, reverse_task: str | None) -> Words:
    if piece.job is None or piece.best is None or not piece.best.ids or piece.text == piece.source:
        return _words(piece.source, piece.text)
    there = maps.written(piece.job, piece.best, set())
    back = _reversed(maps, there, reverse_task)
    map, reverse = with_kept_map(there, piece.kept), back and with_kept_map(back, piece.kept)
    if reverse and (reverse.source, reverse.output) != (map.output, map.source):
        reverse = None  # another text at its ends
    sources = [place for place in alignment.word_places(map.src, map.source) if map.source[slice(*place)].strip()]
    targets = [place for place in alignment.word_places(map.tgt, map.output) if map.output[slice(*place)].strip()]
    return sources, targets, alignment.align(map, reverse, source_words=sources, target_words=targets)


def _reversed(maps: PairMaps, there: AttentionMap, task: str | None) -> AttentionMap | None:
    """The map of the other direction, in which the output is the source; None where there is none."""
    if task is None:
        return None
    tokenizer = maps.runtime.checkpoint.tokenizer
    try:
        return maps.written((task, tuple(tokenizer.encode(there.output))), maps.forced(there.source, task), set())
    except InputError:  # too long
        return None
