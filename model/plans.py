"""What is to be done for a text: its segments, what of each must be kept, and the jobs for the search."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import protect, segment
from .casing import usual_case
from .config import Task
from .directions import Directions, other
from .protect import SLOTS, Span
from .runtime import Job, Runtime, check_text
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .glossary import Glossary

# The longest segment fed at once. Training sees single sentences, few of them over 100 pieces, and a model copes badly
# with positions it has rarely seen; and twice this, the usual room for an output, stays under max_length (512).
MAX_SOURCE_PIECES = 200


# What a model of a language can read, by the names of segment.script; of other languages nothing is known.
SCRIPTS = {"en": ("latin", "han"), "zh": ("latin", "han")}


@dataclass(frozen=True)
class Part:
    """A segment, and what is to be done for it: a job for the search, or the output that is `ready`, or neither, for what is
    copied. `hidden` is what the model reads; `kept` what the slots of that stand for, the first, the second …; `wanted` all
    that must stand in the output."""

    segment: segment.Segment
    hidden: str = ""
    job: Job | None = None
    ready: str | None = None
    kept: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()


@dataclass
class Plan:
    """What is to be done for one text, between two languages."""

    text: str
    source: str
    target: str
    parts: list[Part]
    flags: set[str]


class Planner:
    """Makes plans for a model. A text without letters does not open its files."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.directions = Directions(runtime)

    @functools.cached_property
    def slots(self) -> list[int]:
        """The pieces of the slots (module protect); none where the vocabulary has no such pieces."""
        tokenizer = self.runtime.checkpoint.tokenizer
        own = isinstance(tokenizer, Tokenizer) and tokenizer is self.runtime.checkpoint.target_tokenizer
        ids = tokenizer.encode(protect.SLOTS) if own else []
        return ids if len(ids) == len(protect.SLOTS) else []

    def plan(
        self,
        name: str,
        text: str,
        source: str | None,
        target: str | None,
        also: Sequence[tuple[int, int]] = (),
        glossary: Glossary | None = None,
    ) -> Plan:
        """The plan for a text, which messages call `name`. The languages are names that the model has; `also` are
        stretches of the text, in characters, that must be kept. Raises UsageError, InputError."""
        check_text(name, text)
        if not any(map(str.isalpha, text)):  # the model is not opened for it
            language = source or segment.guess_language(text)
            return Plan(text, language, target or other(language), [], {"copied"})
        language, goal = self.directions.of(text, source, target)
        if language == goal and language:
            return Plan(text, language, goal, [], {"copied"})
        if (language, goal) not in self.directions.tasks:
            raise self.directions.missing(language, goal)
        task = self.directions.tasks[language, goal]
        limit = self._source_limit(self.runtime.checkpoint.config.tasks[task])

        def terms(part: str) -> list[Span]:
            return glossary.find(part, language, goal) if glossary is not None else []

        plan = Plan(text, language, goal, [], set())
        at = 0
        for piece in segment.split(text, lambda part: self._fits(part, limit, terms)):
            here = [
                (max(a - at, 0), min(b - at, len(piece.text))) for a, b in also if a < at + len(piece.text) and b > at
            ]
            at += len(piece.text)
            plan.parts.append(self._part(plan, piece, task, here, terms))
        if segment.was_split([part.segment for part in plan.parts]):
            plan.flags.add("split")
        if not any(part.job or part.ready is not None for part in plan.parts):
            plan.flags.add("copied")
        return plan

    def _part(
        self,
        plan: Plan,
        piece: segment.Segment,
        task: str,
        also: Sequence[tuple[int, int]],
        terms: Callable[[str], list[Span]],
    ) -> Part:
        if not piece.translate:
            return Part(piece)
        text, cased = piece.text, usual_case(piece.text)
        chosen, others = _kept(cased, [Span(a, b, text[a:b]) for a, b in also], terms(text))
        if cased != text:  # what is kept is kept as it was
            of_terms = {(start, end) for start, end, _ in terms(text)}
            chosen, others = (
                [span if span[:2] in of_terms else span._replace(output=text[span.start : span.end]) for span in spans]
                for spans in (chosen, others)
            )
        every = [*chosen, *others]
        plain = _set_in(cased, [Span(start, end, " ") for start, end, _ in every])
        if not any(map(str.isalpha, plain)):  # nothing but an address, say
            whole = _set_in(text, every)
            return Part(piece, ready=whole) if whole != text else Part(dataclasses.replace(piece, translate=False))
        if plan.source in SCRIPTS and segment.script(plain) not in SCRIPTS[plan.source]:
            plan.flags.add("untranslated")  # rather than mistranslated
            return Part(piece, ready=text)
        if self.slots:
            hidden, kept = protect.hide(cased, chosen)
            hidden = protect.apart(hidden, kept)
        else:
            hidden, kept = _set_in(cased, [Span(start, end, text[start:end]) for start, end, _ in every]), []
            others = every
        job = (task, tuple(self.runtime.checkpoint.tokenizer.encode(hidden)))
        return Part(piece, hidden, job, None, tuple(kept), (*kept, *(span.output for span in others)))

    def _fits(self, part: str, limit: int, terms: Callable[[str], list[Span]]) -> bool:
        if self.slots:
            found, others = _kept(part, [], terms(part))
            if others:
                return False
            part, _ = protect.hide(part, found)
        if part.isascii() and len(part) < limit:
            return True  # a piece has at least one character, and before the first one there may be one for the start
        return len(self.runtime.checkpoint.tokenizer.encode(part)) <= limit

    def _source_limit(self, task: Task) -> int:
        """How many pieces a segment may have, next to the task's prefix and the end piece."""
        model = self.runtime.checkpoint.config.model
        if model.positions != "learned":
            return MAX_SOURCE_PIECES
        around = len(task.src_prefix) + 1 + len(task.src_suffix)
        return max(1, min(MAX_SOURCE_PIECES, model.max_positions - around))


def _kept(text: str, given: Sequence[Span], terms: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    """What must come through of a text: as many spans as there are slots, and the others; each in order. What is given
    goes before terms, terms before what is found in the text, but for a term inside of an address or the like."""
    if not terms and not given:
        found = protect.spans(text)
        return found[: len(SLOTS)], found[len(SLOTS) :]
    own = [
        term
        for term in terms
        if not any(a < term.end and term.start < b for a, b, _ in given)
        and not any(
            a <= term.start and term.end <= b and term.end - term.start < b - a for a, b, _ in protect.spans(text)
        )
    ]
    found = protect.spans(text, [*given, *own])
    first = sorted(found, key=lambda span: span not in given and span not in own)[: len(SLOTS)]
    return sorted(first), [span for span in found if span not in first]


def _set_in(text: str, spans: Sequence[Span]) -> str:
    """The text with what each span says in its place."""
    for start, end, output in sorted(spans, reverse=True):
        text = text[:start] + output + text[end:]
    return text
