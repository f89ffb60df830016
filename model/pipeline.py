"""Text in, text out: where language, segments, tokenizer, model and search meet."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from . import segment
from .checkpoint import Checkpoint, resolve_model
from .config import AllPairs, GenerationConfig, Task
from .errors import CheckpointError, UsageError
from .results import Hypothesis, Translation
from .runtime import Job, Runtime, check_text, check_whole, with_beam

# The longest segment fed at once. Training sees single sentences, few of them over 100 pieces, and a model copes badly
# with positions it has rarely seen; and twice this, the usual room for an output, stays under max_length (512).
MAX_SOURCE_PIECES = 200
BREAKS = "[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+"  # what parts lines and columns; no segment holds any
UNSAID = ("", "")  # the direction of a model that does not say which it is


@dataclass
class Plan:
    """What is to be done for one text: its segments, and a job for each that is to be translated (else None)."""

    text: str
    source: str
    target: str
    segments: list[segment.Segment]
    jobs: list[Job | None]
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
    ) -> list[Translation]:
        """Translates each text, and returns one Translation for each, in order.

        Without `source` it is the only language that the model reads, else the language is guessed for each text; without
        `target` it is the only one into which the model translates that. A text without letters, and one that is in an explicit `target` already, is returned as it is, with the
        flag "copied".
        Segments of all texts are translated together, `batch_size` at a time; results do not depend on that.
        `settings` replace the model's own settings of the search, `beam_size` one of them. `more` says that many more
        texts wait, so that PyTorch is worth its start-up however few these are.

        Raises UsageError for a direction that the model does not have or a setting out of range, InputError for text
        that UTF-8 cannot hold, CheckpointError for a model that cannot be read.
        """
        if isinstance(texts, (str, bytes)):
            raise UsageError(f"texts must be a list of strings, not one {type(texts).__name__}")
        for number, text in enumerate(texts, start=1):
            if not isinstance(text, str):
                raise UsageError(f"text {number} must be a string, not {type(text).__name__}")
        check_whole("batch_size", batch_size)
        if beam_size is not None:
            check_whole("beam_size", beam_size)
        source, target = self._known(source, target)
        plans = [self._plan(number, text, source, target) for number, text in enumerate(texts, start=1)]
        jobs = dict.fromkeys(job for plan in plans for job in plan.jobs if job is not None)
        if not jobs:
            return [self._finish(plan, {}) for plan in plans]
        try:
            outputs = self._generate(list(jobs), batch_size, beam_size, settings, more)
            return [self._finish(plan, outputs) for plan in plans]
        finally:
            self.checkpoint.verify()  # of damaged weights not even an error says anything

    def plan(self, text: str, *, source: str | None = None, target: str | None = None) -> Plan:
        """What `translate` would do for one text. Errors as there."""
        source, target = self._known(source, target)
        return self._plan(1, text, source, target)

    def search(self, jobs: Sequence[Job], beam_size: int | None = None) -> dict[Job, Hypothesis]:
        """What `translate` finds for the jobs of a plan."""
        return self._generate(list(jobs), 32, beam_size, None, False)

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

    def _plan(self, number: int, text: str, source: str | None, target: str | None) -> Plan:
        check_text(f"text {number}", text)
        if not any(map(str.isalpha, text)):  # the model is not opened for it
            language = source or segment.guess_language(text)
            return Plan(text, language, target or _other(language), [], [], {"copied"})
        language, goal = self._direction(text, source, target)
        if language == goal and language:
            return Plan(text, language, goal, [], [], {"copied"})
        if (language, goal) not in self._tasks:
            raise self._no_pair(language, goal)
        name = self._tasks[language, goal]
        encode = self.checkpoint.tokenizer.encode
        limit = self._source_limit(self.checkpoint.config.tasks[name])
        segments = segment.split(text, lambda part: len(encode(part)) <= limit)
        jobs = [(name, tuple(encode(part.text))) if part.translate else None for part in segments]
        return Plan(text, language, goal, segments, jobs, {"split"} if segment.was_split(segments) else set())

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
        """The best hypothesis for each job; jobs of like length share a batch, so that little of it is padding."""
        search = with_beam(settings or self.checkpoint.config.generation, beam_size)
        return self.runtime.generate(jobs, search, batch_size, more)

    def _finish(self, plan: Plan, outputs: dict[Job, Hypothesis]) -> Translation:
        if not plan.segments:
            return Translation(plan.text, plan.text, plan.source, plan.target, 0.0, tuple(sorted(plan.flags)))
        texts: list[str] = []
        log_prob, pieces = 0.0, 0
        for part, job in zip(plan.segments, plan.jobs, strict=True):
            if job is None:
                continue
            best = outputs[job]
            text = self.checkpoint.target_tokenizer.decode(best.ids)
            text = (text if text.isprintable() else re.sub(BREAKS, " ", text)).strip()  # the pattern is slow to compile
            if not text:
                # Nothing is dropped: what the model has no words for stays as it is.
                text = part.text
                plan.flags.add("copied")
            texts.append(text)
            log_prob += best.log_prob
            pieces += len(best.ids) + best.finished  # the end piece is one of those that log_prob sums over
            if best.looped:
                plan.flags.add("looped")
            elif not best.finished:
                plan.flags.add("cut")
        return Translation(
            plan.text,
            segment.join(plan.segments, texts, plan.target),
            plan.source,
            plan.target,
            log_prob / pieces if pieces else 0.0,
            tuple(sorted(plan.flags)),
        )


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
