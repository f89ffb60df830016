"""Text in, text out: where language, segments, tokenizer, model and search meet."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from . import protect, segment
from .casing import usual_case
from .checkpoint import Checkpoint, resolve_model
from .config import AllPairs, GenerationConfig, Task
from .errors import CheckpointError, UsageError
from .protect import BREAKS, SLOTS, Span
from .results import Hypothesis, Translation
from .runtime import Job, Runtime, check_text, check_whole, with_beam
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from .glossary import Glossary
    from .rules import LogitsRule

# The longest segment fed at once. Training sees single sentences, few of them over 100 pieces, and a model copes badly
# with positions it has rarely seen; and twice this, the usual room for an output, stays under max_length (512).
MAX_SOURCE_PIECES = 200
UNSAID = ("", "")  # the direction of a model that does not say which it is


# What a model of a language can read, by the names of segment.script; of other languages nothing is known.
SCRIPTS = {"en": ("latin", "han"), "zh": ("latin", "han")}
MOST_ALTERNATIVES = 64

Key = tuple[Job, tuple[str, ...]]  # what a stricter search is asked for: a job, and what must stand in its output


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


class Translator:
    """A model that translates texts. `model` is a Runtime, or a name or a path for one; the other settings are a Runtime's:
    device, threads, engine."""

    def __init__(self, model: str | Path | Runtime | None = None, **settings: Any) -> None:
        self.runtime = model if isinstance(model, Runtime) else Runtime(model, **settings)

    @property
    def path(self) -> Path:
        return self.runtime.path

    @property
    def engine(self) -> str:
        """The engine that computes, "numpy" or "torch"; until something is computed, the one that was asked for."""
        return self.runtime.engine

    @property
    def checkpoint(self) -> Checkpoint:
        return self.runtime.checkpoint

    @functools.cached_property
    def _tasks(self) -> dict[tuple[str, str], str]:
        tasks = self.checkpoint.config.tasks
        if isinstance(tasks, AllPairs):
            return tasks.pairs()
        return {(task.source, task.target): name for name, task in tasks.items() if name.startswith("translate:")}

    @functools.cached_property
    def _goals(self) -> dict[str, list[str]]:
        """For each source language the targets."""
        goals: dict[str, list[str]] = {}
        for source, target in self._tasks:
            goals.setdefault(source, []).append(target)
        return goals

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The directions that the model translates in, as (source, target) language codes."""
        return list(self._tasks)

    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        beam_size: int | None = None,
        batch_size: int = 32,
        settings: GenerationConfig | None = None,
        more: bool = False,
        protected: Sequence[Sequence[tuple[int, int]]] | None = None,
        glossary: Glossary | None = None,
        n_best: int | None = None,
        align: bool = False,
    ) -> list[Translation]:
        """Translates each text, and returns one Translation for each, in order.

        Without `source` it is the only language that the model reads, else the language is guessed for each text; without
        `target` it is the only one into which the model translates that. A text without letters, and one that is in an explicit `target` already, is returned as it is, with the
        flag "copied".
        Segments of all texts are translated together, `batch_size` at a time; results do not depend on that.
        `settings` replace the model's own settings of the search, `beam_size` one of them. `more` says that many more
        texts wait, so that PyTorch is worth its start-up however few these are.

        Numbers, addresses, placeholders, code and emoji come through unchanged (module protect); so do the stretches that
        `protected` gives for each text, (start, end) in characters. The terms of a `glossary` come out as that says. A
        model with slots puts them into its output in place of the slots. What another model lost is asked of it in a
        second search that must write it (module constrained). A text of which something of the kind is missing in the
        translation all the same has the flag "lost".

        `n_best` asks for so many `alternatives`, `align` for the `alignment` of the words.

        Raises UsageError for a direction that the model does not have or a setting out of range, InputError for text
        that UTF-8 cannot hold, CheckpointError for a model that cannot be read.
        """
        if isinstance(texts, (str, bytes)):
            raise UsageError(f"texts must be a list of strings, not one {type(texts).__name__}")
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                raise UsageError(f"text {number} must be a string, not {type(text).__name__}")
        check_whole("batch_size", batch_size)
        for name, value in (("beam_size", beam_size), ("n_best", n_best)):
            if value is not None:
                check_whole(name, value)
        if n_best is not None and n_best > MOST_ALTERNATIVES:
            raise UsageError(f"n_best must be {MOST_ALTERNATIVES} at most, not {n_best}")
        source, target = self._known(source, target)
        also: Sequence[Sequence[tuple[int, int]]] = [()] * len(texts) if protected is None else protected
        if len(also) != len(texts):
            raise UsageError(f"protected has {len(also)} lists for {len(texts)} texts")
        numbers = range(1, len(texts) + 1)
        plans = [
            self._plan(n, text, source, target, spans, glossary)
            for n, text, spans in zip(numbers, texts, also, strict=True)
        ]
        parts = [part for plan in plans for part in plan.parts]
        if not any(part.job for part in parts):
            return [self._finish(plan, {}, n_best, align) for plan in plans]
        try:
            search = with_beam(settings or self.checkpoint.config.generation, beam_size)
            jobs = dict.fromkeys(part.job for part in parts if part.job)
            outputs = self._search(list(jobs), batch_size, search, more, n_best or 1)
            found = self._found(parts, outputs, search, n_best or 1)
            return [self._finish(plan, found, n_best, align) for plan in plans]
        finally:
            self.checkpoint.verify()  # of damaged weights not even an error says anything

    def plan(
        self, text: str, *, source: str | None = None, target: str | None = None, glossary: Glossary | None = None
    ) -> Plan:
        """What `translate` would do for one text. Errors as there."""
        source, target = self._known(source, target)
        return self._plan(1, text, source, target, (), glossary)

    def search(self, jobs: Sequence[Job], beam_size: int | None = None) -> dict[Job, Hypothesis]:
        """What a free search finds for the jobs of a plan."""
        return self._generate(list(jobs), 32, beam_size, None, False)

    def best(self, parts: Sequence[Part], beam_size: int | None = None) -> list[Hypothesis]:
        """What `translate` finds for the parts of a plan, all of which have a job."""
        search = with_beam(self.checkpoint.config.generation, beam_size)
        free = self.search(list(dict.fromkeys(part.job for part in parts if part.job)), beam_size)
        found = self._found(parts, {job: [best] for job, best in free.items()}, search, 1)
        return [found[part.job, part.wanted][0] for part in parts if part.job]

    def _known(self, source: str | None, target: str | None) -> tuple[str | None, str | None]:
        """The languages by the names that the model has for them, once it is found to have such a direction."""
        if source is None and target is None:
            return None, None
        named: list[str | None] = []
        for name, language, side in (("source", source, 0), ("target", target, 1)):
            if language is not None and not (isinstance(language, str) and language):
                raise UsageError(f"{name} must be a language code such as 'en', not {language!r}")
            known = {pair[side] for pair in self.pairs}
            if language is not None and language not in known:
                from .languages import find

                language = find(language, sorted(known)) or language
            named.append(language)
        if source == target:
            raise UsageError(f"source and target language are both {source!r}: nothing to translate")
        if not any(named[0] in (None, s) and named[1] in (None, t) for s, t in self.pairs):
            raise self._no_pair(source or "any language", target or "any language")
        return named[0], named[1]

    def _no_pair(self, source: str, target: str) -> UsageError:
        from .languages import offer

        name = self.path.name
        if self.pairs == [UNSAID]:
            return UsageError(f"the model {name} does not say its languages: do not give any, and it translates")
        return UsageError(f"the model {name} does not translate {source} → {target}; it translates {offer(self.pairs)}")

    def _direction(self, text: str, source: str | None, target: str | None) -> tuple[str, str]:
        """The languages of a text and of its translation, where they are not given. Raises UsageError if several would
        do, or none."""
        if not self._goals:
            raise CheckpointError(f"the model {self.path.name} does not translate")
        sources, language = list(self._goals), source
        if language is None:
            guess = segment.guess_language(text)
            # Han characters say something even to a model that reads one language, other letters do not.
            said = guess in self._goals or (guess == "zh" and any("zh" in goals for goals in self._goals.values()))
            if not said and len(sources) > 1 and target is not None:
                sources = [s for s, goals in self._goals.items() if target in goals]
            if not said and len(sources) != 1:
                raise UsageError(f"which language is the text in? Give the source language: {_some(sources)}")
            language = guess if said else sources[0]
        goal = target
        if goal is None:
            goals = self._goals.get(language, [])
            if len(goals) > 1:
                raise UsageError(f"into which language? Give the target language: {_some(goals)}")
            goal = goals[0] if goals else _other(language)
        return language, goal

    def _plan(
        self,
        number: int,
        text: str,
        source: str | None,
        target: str | None,
        also: Sequence[tuple[int, int]] = (),
        glossary: Glossary | None = None,
    ) -> Plan:
        check_text(f"text {number}", text)
        if not any(map(str.isalpha, text)):  # the model is not opened for it
            language = source or segment.guess_language(text)
            return Plan(text, language, target or _other(language), [], {"copied"})
        language, goal = self._direction(text, source, target)
        if language == goal and language:
            return Plan(text, language, goal, [], {"copied"})
        if (language, goal) not in self._tasks:
            raise self._no_pair(language, goal)
        name = self._tasks[language, goal]
        limit = self._source_limit(self.checkpoint.config.tasks[name])

        def terms(part: str) -> list[Span]:
            return glossary.find(part, language, goal) if glossary is not None else []

        plan = Plan(text, language, goal, [], set())
        at = 0
        for piece in segment.split(text, lambda part: self._fits(part, limit, terms)):
            here = [
                (max(a - at, 0), min(b - at, len(piece.text))) for a, b in also if a < at + len(piece.text) and b > at
            ]
            at += len(piece.text)
            plan.parts.append(self._part(plan, piece, name, here, terms))
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
        job = (task, tuple(self.checkpoint.tokenizer.encode(hidden)))
        return Part(piece, hidden, job, None, tuple(kept), (*kept, *(span.output for span in others)))

    @functools.cached_property
    def slots(self) -> list[int]:
        """The pieces of the slots (module protect); none where the vocabulary has no such pieces."""
        tokenizer = self.checkpoint.tokenizer
        own = isinstance(tokenizer, Tokenizer) and tokenizer is self.checkpoint.target_tokenizer
        ids = tokenizer.encode(protect.SLOTS) if own else []
        return ids if len(ids) == len(protect.SLOTS) else []

    def _fits(self, part: str, limit: int, terms: Callable[[str], list[Span]]) -> bool:
        if self.slots:
            found, others = _kept(part, [], terms(part))
            if others:
                return False
            part, _ = protect.hide(part, found)
        return len(self.checkpoint.tokenizer.encode(part)) <= limit

    def _source_limit(self, task: Task) -> int:
        """How many pieces a segment may have, next to the task's prefix and the end piece."""
        model = self.checkpoint.config.model
        if model.positions != "learned":
            return MAX_SOURCE_PIECES
        around = len(task.src_prefix) + 1 + len(task.src_suffix)
        return max(1, min(MAX_SOURCE_PIECES, model.max_positions - around))

    def _generate(
        self, jobs: list[Job], batch_size: int, beam_size: int | None, settings: GenerationConfig | None, more: bool
    ) -> dict[Job, Hypothesis]:
        search = with_beam(settings or self.checkpoint.config.generation, beam_size)
        return {job: found[0] for job, found in self._search(jobs, batch_size, search, more, 1).items()}

    def _search(
        self, jobs: list[Job], batch_size: int, search: GenerationConfig, more: bool, n_best: int
    ) -> dict[Job, list[Hypothesis]]:
        return self.runtime.n_best(jobs, search, batch_size, more, lambda src: self._rules(src, search), n_best)

    def _found(
        self, parts: Iterable[Part], free: dict[Job, list[Hypothesis]], search: GenerationConfig, n_best: int
    ) -> dict[Key, list[Hypothesis]]:
        """The hypotheses for each part that has a job, given what a free search found: those, or where the best of them
        lost something, those of a stricter search, if that did not."""
        found: dict[Key, list[Hypothesis]] = {}
        again: dict[Key, Part] = {}
        for part in parts:
            if part.job:
                key = part.job, part.wanted
                found[key] = free[part.job]
                if self._lost(part, free[part.job][0]):
                    again.setdefault(key, part)
        if again:
            from .constrained import Asked, joins_of, outputs, ways_to_spell

            target = self.checkpoint.target_tokenizer
            asked: dict[Key, Asked] = {}
            for key, part in again.items():
                slots = [i for i in key[0][1] if i in self.slots]
                ways = [ways_to_spell(target, text) for text in part.wanted[len(part.kept) :]]
                asked[key] = Asked(key[0], [*(((i,),) for i in slots), *filter(None, ways)])
            joins = joins_of(target, self.slots)
            strict = outputs(self.runtime, list(asked.values()), search, n_best, joins, self.slots)
            for (key, part), hypotheses in zip(again.items(), strict, strict=True):
                if hypotheses and len(self._lost(part, hypotheses[0])) < len(self._lost(part, found[key][0])):
                    found[key] = hypotheses
        return found

    def _lost(self, part: Part, hypothesis: Hypothesis) -> list[str]:
        return protect.missing(part.wanted, self._printed(part, hypothesis)) if part.wanted else []

    def _printed(self, part: Part, hypothesis: Hypothesis) -> str:
        """An output as it is printed, on one line and without spaces around it."""
        text = protect.restore(self.checkpoint.target_tokenizer.decode(hypothesis.ids), part.kept)
        return (text if text.isprintable() else re.sub(BREAKS, " ", text)).strip()  # the pattern is slow to compile

    def _rules(self, src: Sequence[Sequence[int]], search: GenerationConfig) -> list[LogitsRule]:
        if not self.slots:
            return []
        from .rules import EachOnce  # with NumPy, which is not loaded before it is needed

        limits = [search.length_limit(len(row)) for row in src]
        return [EachOnce(src, self.slots, self.checkpoint.config.special.eos, limits)]

    def _finish(self, plan: Plan, found: dict[Key, list[Hypothesis]], n_best: int | None, align: bool) -> Translation:
        lists = [found[part.job, part.wanted] for part in plan.parts if part.job]
        chosen = [hypotheses[0] for hypotheses in lists]
        texts = self._outputs(plan, chosen)
        self._notice(plan, chosen, texts)
        text = self._joined(plan, texts)
        score = _mean(chosen)
        translation = Translation(plan.text, text, plan.source, plan.target, score, tuple(sorted(plan.flags)))
        if n_best is not None:
            from .alternatives import alternatives

            clean = [
                [best, *(h for h in others if not self._lost(part, h))]
                for part, (best, *others) in zip((part for part in plan.parts if part.job), lists, strict=True)
            ]
            several = alternatives(clean, lambda chosen: self._joined(plan, self._outputs(plan, chosen)), _mean, n_best)
            translation = dataclasses.replace(translation, alternatives=tuple(several))
        if align:
            from .word_links import Piece, align_whole

            waiting = iter(chosen)
            pieces = [
                Piece(part.segment.text, text, part.job, part.kept, next(waiting) if part.job else None)
                for part, text in zip(plan.parts, texts, strict=True)
            ]
            reverse = self._tasks.get((plan.target, plan.source))
            found_links = align_whole(self.runtime, pieces or [Piece(plan.text, text)], text, reverse)
            translation = dataclasses.replace(translation, alignment=found_links)
        return translation

    def _outputs(self, plan: Plan, chosen: Sequence[Hypothesis]) -> list[str]:
        """The text of each part, given the hypotheses for those that have a job. Nothing is dropped: what the model has no
        words for stays as it is."""
        waiting = iter(chosen)
        return [
            self._printed(part, next(waiting)) or part.segment.text
            if part.job
            else (part.segment.text if part.ready is None else part.ready)
            for part in plan.parts
        ]

    def _joined(self, plan: Plan, texts: Sequence[str]) -> str:
        outputs = [text for part, text in zip(plan.parts, texts, strict=True) if part.segment.translate]
        return segment.join([part.segment for part in plan.parts], outputs, plan.target) if plan.parts else plan.text

    def _notice(self, plan: Plan, chosen: Sequence[Hypothesis], texts: Sequence[str]) -> None:
        """Adds what a reader must know to the flags of a plan."""
        waiting = iter(chosen)
        for part, text in zip(plan.parts, texts, strict=True):
            if not part.job:
                continue
            best = next(waiting)
            if protect.missing(part.wanted, text):
                plan.flags.add("lost")
            if not self._printed(part, best):
                plan.flags.add("copied")
            elif _is_untranslated(part, text, plan):
                plan.flags.add("untranslated")
            if best.looped:
                plan.flags.add("looped")
            elif not best.finished:
                plan.flags.add("cut")


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


def _mean(hypotheses: Sequence[Hypothesis]) -> float:
    """The mean log-probability of a piece; end pieces are pieces. 0 where there are none."""
    pieces = sum(len(h.ids) + h.finished for h in hypotheses)
    return sum(h.log_prob for h in hypotheses) / pieces if pieces else 0.0


def _is_untranslated(part: Part, output: str, plan: Plan) -> bool:
    """Whether the output is the source, or no Chinese where it should be; one word and a name may stay as they are."""
    if plan.source == "zh":
        words = sum(map(_is_han, part.hidden)) // 2  # two characters or so are a word
    else:
        words = sum(len(word) > 1 and word.strip(".,;:!?()\"'").isalpha() for word in part.hidden.split())
    same = output == part.segment.text and words >= 2
    return same or (plan.target == "zh" and plan.source != "zh" and words >= 3 and not any(map(_is_han, output)))


def _is_han(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff" or "\U00020000" <= char <= "\U000323af"


def _other(language: str) -> str:
    return "en" if language == "zh" else "zh"


def _some(languages: Sequence[str]) -> str:
    more = f" and {len(languages) - 8} more" if len(languages) > 8 else ""
    return ", ".join(sorted(languages)[:8]) + more


@functools.cache
def _translator(path: Path) -> Translator:
    return Translator(path)


@overload
def translate(
    text: str,
    source: str | None = None,
    target: str | None = None,
    model: str | Path | None = None,
    beam_size: int | None = None,
) -> str: ...
@overload
def translate(
    text: list[str],
    source: str | None = None,
    target: str | None = None,
    model: str | Path | None = None,
    beam_size: int | None = None,
) -> list[str]: ...
def translate(
    text: str | list[str],
    source: str | None = None,
    target: str | None = None,
    model: str | Path | None = None,
    beam_size: int | None = None,
) -> str | list[str]:
    """The translation of a text, or of each text of a list. A model stays loaded for the next call.

    Languages, model and errors as in `Translator`; use that for scores and warnings.
    """
    translator = _translator(resolve_model(model).resolve())
    if not isinstance(text, (str, list, tuple)):
        raise UsageError(f"give a string or a list of strings to translate, not {type(text).__name__}")
    texts = [text] if isinstance(text, str) else list(text)
    results = [t.text for t in translator.translate(texts, source=source, target=target, beam_size=beam_size)]
    return results[0] if isinstance(text, str) else results
