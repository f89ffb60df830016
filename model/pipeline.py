"""Text in, text out: where plans, model and search meet. plans.py makes of a text what is to be searched (directions.py: between
which languages), outputs.py of what was found a translation."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from .checkpoint import Checkpoint, resolve_model
from .config import GenerationConfig
from .errors import UsageError
from .outputs import Outputs
from .plans import Part, Plan, Planner
from .results import Hypothesis, Translation
from .runtime import Job, Runtime, check_whole, with_beam

if TYPE_CHECKING:
    from .glossary import Glossary
    from .rules import LogitsRule

MOST_ALTERNATIVES = 64

Key = tuple[Job, tuple[str, ...]]  # what a stricter search is asked for: a job, and what must stand in its output


class Translator:
    """A model that translates texts. `model` is a Runtime, or a name or a path for one; the other settings are a Runtime's:
    device, threads, engine."""

    def __init__(self, model: str | Path | Runtime | None = None, **settings: Any) -> None:
        self.runtime = model if isinstance(model, Runtime) else Runtime(model, **settings)
        self._planner = Planner(self.runtime)
        self._outputs = Outputs(self.runtime, self._planner)

    @functools.cached_property
    def _slots(self) -> frozenset[int]:
        return frozenset(self.slots)

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

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The directions that the model translates in, as (source, target) language codes."""
        return list(self._planner.directions.tasks)

    @property
    def slots(self) -> list[int]:
        """The pieces of the slots (module protect); none where the vocabulary has no such pieces."""
        return self._planner.slots

    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        beam_size: int | None = None,
        batch_size: int | None = None,
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
        Segments of all texts are translated together, `batch_size` at a time (by default as many as suit the engine);
        results do not depend on that, but with a `shortlist` and with the `precision` int8 or bf16: there a word may.
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
        for name, value in (("batch_size", batch_size), ("beam_size", beam_size), ("n_best", n_best)):
            if value is not None:
                check_whole(name, value)
        if n_best is not None and n_best > MOST_ALTERNATIVES:
            raise UsageError(f"n_best must be {MOST_ALTERNATIVES} at most, not {n_best}")
        source, target = self._planner.directions.known(source, target)
        also: Sequence[Sequence[tuple[int, int]]] = [()] * len(texts) if protected is None else protected
        if len(also) != len(texts):
            raise UsageError(f"protected has {len(also)} lists for {len(texts)} texts")
        numbers = range(1, len(texts) + 1)
        plans = [
            self._planner.plan(f"text {n}", text, source, target, spans, glossary)
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
        source, target = self._planner.directions.known(source, target)
        return self._planner.plan("text 1", text, source, target, (), glossary)

    def search(self, jobs: Sequence[Job], beam_size: int | None = None) -> dict[Job, Hypothesis]:
        """What a free search finds for the jobs of a plan."""
        return self._generate(list(jobs), 32, beam_size, None, False)

    def best(self, parts: Sequence[Part], beam_size: int | None = None) -> list[Hypothesis]:
        """What `translate` finds for the parts of a plan, all of which have a job."""
        search = with_beam(self.checkpoint.config.generation, beam_size)
        free = self.search(list(dict.fromkeys(part.job for part in parts if part.job)), beam_size)
        found = self._found(parts, {job: [best] for job, best in free.items()}, search, 1)
        return [found[part.job, part.wanted][0] for part in parts if part.job]

    def _generate(
        self,
        jobs: list[Job],
        batch_size: int | None,
        beam_size: int | None,
        settings: GenerationConfig | None,
        more: bool,
    ) -> dict[Job, Hypothesis]:
        search = with_beam(settings or self.checkpoint.config.generation, beam_size)
        return {job: found[0] for job, found in self._search(jobs, batch_size, search, more, 1).items()}

    def _search(
        self, jobs: list[Job], batch_size: int | None, search: GenerationConfig, more: bool, n_best: int
    ) -> dict[Job, list[Hypothesis]]:
        rules = lambda src: self._rules(src, search)  # noqa: E731
        return self.runtime.n_best(jobs, search, batch_size, more, rules, n_best, self._has_slots)

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
                if self._outputs.lost(part, free[part.job][0]):
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
                before = len(self._outputs.lost(part, found[key][0]))
                if hypotheses and len(self._outputs.lost(part, hypotheses[0])) < before:
                    found[key] = hypotheses
        return found

    def _has_slots(self, ids: Sequence[int]) -> bool:
        return not self._slots.isdisjoint(ids)

    def _rules(self, src: Sequence[Sequence[int]], search: GenerationConfig) -> list[LogitsRule]:
        if not self.slots:
            return []
        from .rules import EachOnce, Suppress  # with NumPy, which is not loaded before it is needed

        if not any(self._has_slots(row) for row in src):
            return [Suppress(self.slots)]  # the same, and sooner done
        limits = [search.length_limit(len(row)) for row in src]
        return [EachOnce(src, self.slots, self.checkpoint.config.special.eos, limits)]

    def _finish(self, plan: Plan, found: dict[Key, list[Hypothesis]], n_best: int | None, align: bool) -> Translation:
        lists = [found[part.job, part.wanted] for part in plan.parts if part.job]
        return self._outputs.translation(plan, lists, n_best, align)


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
