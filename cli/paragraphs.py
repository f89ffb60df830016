"""`tx translate --paragraph`: lines that were wrapped at some width, as one line for each paragraph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from .text_io import Line


def joined(batches: Iterable[list[Line]]) -> Iterator[list[Line]]:
    """The batches with each paragraph as one line, which has the place of its first line and the end of its last.

    A batch holds the paragraphs that are known to be whole; the lines of the last one wait for those that follow. An empty
    batch stays one."""
    from ..model.paragraphs import Unwrapper

    unwrapper = Unwrapper()
    waiting: deque[Line] = deque()  # the lines of the paragraphs that are not whole yet

    def whole(found: Iterable[tuple[str, int]]) -> Iterator[Line]:
        for text, count in found:
            lines = [waiting.popleft() for _ in range(count)]
            yield lines[0]._replace(text=text, end=lines[-1].end)

    for batch in batches:
        ready: list[Line] = []
        for line in batch:
            if line.part:  # of a line that is too long: it is a paragraph by itself
                ready += [*whole(unwrapper.finish()), line]
            else:
                waiting.append(line)
                ready += whole(unwrapper.push(line.text))
        if ready or not batch:
            yield ready
    last = list(whole(unwrapper.finish()))
    if last:
        yield last
