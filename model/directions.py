"""Which languages a model translates between, and which of them are meant where not all is said."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from . import segment
from .config import AllPairs
from .errors import CheckpointError, UsageError
from .runtime import Runtime

UNSAID = ("", "")  # the direction of a model that does not say which it is


class Directions:
    """The directions that a model translates in. Its files are opened by the first question."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    @functools.cached_property
    def tasks(self) -> dict[tuple[str, str], str]:
        """The name of the task for each direction (source, target)."""
        tasks = self.runtime.checkpoint.config.tasks
        if isinstance(tasks, AllPairs):
            return tasks.pairs()
        return {(task.source, task.target): name for name, task in tasks.items() if name.startswith("translate:")}

    @functools.cached_property
    def _goals(self) -> dict[str, list[str]]:
        """For each source language the targets."""
        goals: dict[str, list[str]] = {}
        for source, target in self.tasks:
            goals.setdefault(source, []).append(target)
        return goals

    def known(self, source: str | None, target: str | None) -> tuple[str | None, str | None]:
        """The languages by the names that the model has for them. Raises UsageError if it has no such direction."""
        if source is None and target is None:
            return None, None
        named: list[str | None] = []
        for name, language, side in (("source", source, 0), ("target", target, 1)):
            if language is not None and not (isinstance(language, str) and language):
                raise UsageError(f"{name} must be a language code such as 'en', not {language!r}")
            known = {pair[side] for pair in self.tasks}
            if language is not None and language not in known:
                from .languages import find

                language = find(language, sorted(known)) or language
            named.append(language)
        if source == target:
            raise UsageError(f"source and target language are both {source!r}: nothing to translate")
        if not any(named[0] in (None, s) and named[1] in (None, t) for s, t in self.tasks):
            raise self.missing(source, target)
        return named[0], named[1]

    def missing(self, source: str | None, target: str | None) -> UsageError:
        """What to say of a direction that the model does not have, or of a language on one side of it."""
        from .languages import offer

        name, pairs = self.runtime.path.name, list(self.tasks)
        if pairs == [UNSAID]:
            return UsageError(f"the model {name} does not say its languages: do not give any, and it translates")
        asked = f"{source} → {target}" if source and target else f"from {source}" if source else f"into {target}"
        return UsageError(f"the model {name} does not translate {asked}; it translates {offer(pairs)}")

    def of(self, text: str, source: str | None, target: str | None) -> tuple[str, str]:
        """The languages of a text and of its translation, where they are not given. Raises UsageError if several would
        do, or none."""
        if not self._goals:
            raise CheckpointError(f"the model {self.runtime.path.name} does not translate")
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
            goal = goals[0] if goals else other(language)
        return language, goal


def other(language: str) -> str:
    """Of English and Chinese the other one."""
    return "en" if language == "zh" else "zh"


def _some(languages: Sequence[str]) -> str:
    more = f" and {len(languages) - 8} more" if len(languages) > 8 else ""
    return ", ".join(sorted(languages)[:8]) + more
