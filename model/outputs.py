"""From what the search found for the parts of a plan to the translation of the text, and what a reader must know of it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from . import protect, segment
from .plans import Part, Plan, Planner
from .protect import BREAKS
from .results import Hypothesis, Translation
from .runtime import Runtime
from .tokenizer import Tokenizer


class Outputs:
    """Hypotheses as text. `planner` is the one that made the plans."""

    def __init__(self, runtime: Runtime, planner: Planner) -> None:
        self.runtime, self.planner = runtime, planner

    def lost(self, part: Part, hypothesis: Hypothesis) -> list[str]:
        """What had to stand in the output of a part, and does not."""
        return protect.missing(part.wanted, self._printed(part, hypothesis)) if part.wanted else []

    def translation(
        self, plan: Plan, lists: Sequence[Sequence[Hypothesis]], n_best: int | None, align: bool
    ) -> Translation:
        """The translation of a text, given for each part that has a job its hypotheses, best first."""
        chosen = [hypotheses[0] for hypotheses in lists]
        texts = self._texts(plan, chosen)
        self._notice(plan, chosen, texts)
        text = self._joined(plan, texts)
        if protect.emptied(plan.text, text):
            plan.flags.add("lost")
        score = _mean(chosen)
        translation = Translation(plan.text, text, plan.source, plan.target, score, tuple(sorted(plan.flags)))
        if n_best is not None:
            from .alternatives import alternatives

            clean = [
                [best, *(h for h in others if not self.lost(part, h))]
                for part, (best, *others) in zip((part for part in plan.parts if part.job), lists, strict=True)
            ]
            several = alternatives(clean, lambda chosen: self._joined(plan, self._texts(plan, chosen)), _mean, n_best)
            translation = dataclasses.replace(translation, alternatives=tuple(several))
        if align:
            from .word_links import Piece, align_whole

            waiting = iter(chosen)
            pieces = [
                Piece(part.segment.text, text, part.job, part.kept, next(waiting) if part.job else None)
                for part, text in zip(plan.parts, texts, strict=True)
            ]
            reverse = self.planner.directions.tasks.get((plan.target, plan.source))
            found_links = align_whole(self.runtime, pieces or [Piece(plan.text, text)], text, reverse)
            translation = dataclasses.replace(translation, alignment=found_links)
        return translation

    def _is_ordinary(self, word: str) -> bool:
        """Whether a word in small letters is a piece of the vocabulary, and no rarer one than with a capital: a name is
        none. Not known of models of other projects."""
        tokenizer = self.runtime.checkpoint.tokenizer
        if not isinstance(tokenizer, Tokenizer):
            return False
        small, capital = tokenizer.encode(word), tokenizer.encode(word.capitalize())
        return len(small) == 1 and (len(capital) > 1 or tokenizer.scores[small[0]] >= tokenizer.scores[capital[0]])

    def _printed(self, part: Part, hypothesis: Hypothesis) -> str:
        """An output as it is printed, on one line and without spaces around it."""
        text = protect.restore(self.runtime.checkpoint.target_tokenizer.decode(hypothesis.ids), part.kept)
        return (text if text.isprintable() else re.sub(BREAKS, " ", text)).strip()  # the pattern is slow to compile

    def _texts(self, plan: Plan, chosen: Sequence[Hypothesis]) -> list[str]:
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
            is_empty = not any(map(str.isalnum, text)) and any(map(str.isalpha, part.hidden))  # "ten" may be 10
            if is_empty or protect.missing(part.wanted, text):
                plan.flags.add("lost")
            if not self._printed(part, best):
                plan.flags.add("copied")
            else:
                plan.flags |= _strays(part, text, plan, self._is_ordinary)
            if best.looped:
                plan.flags.add("looped")
            elif not best.finished:
                plan.flags.add("cut")


def _mean(hypotheses: Sequence[Hypothesis]) -> float:
    """The mean log-probability of a piece; end pieces are pieces. 0 where there are none."""
    pieces = sum(len(h.ids) + h.finished for h in hypotheses)
    return sum(h.log_prob for h in hypotheses) / pieces if pieces else 0.0


def _strays(part: Part, output: str, plan: Plan, is_ordinary: Callable[[str], bool]) -> set[str]:
    """Flags for what the output of a part has that it should not: a number that is not in the text, words that stayed in
    their language, letters that are no words of it."""
    flags = {"untranslated"} if _is_untranslated(part, output, plan) else set()
    between = plan.source[:2], plan.target[:2]
    if between not in (("en", "zh"), ("zh", "en")):
        return flags
    for wanted in part.wanted:
        output = output.replace(wanted, " ", 1)
    is_mixed = any(map(_is_han if between[1] == "en" else _is_small_latin, output))
    has_digits = any(map(str.isdecimal, output))
    if has_digits or is_mixed:
        from .strays import invented, left  # seldom needed

        source = " ".join([part.segment.text, *part.wanted])
        flags |= {"invented"} if has_digits and invented(source, output) else set()
        flags |= {"untranslated"} if is_mixed and left(source, output, between[1], is_ordinary) else set()
    return flags


def _is_untranslated(part: Part, output: str, plan: Plan) -> bool:
    """Whether the output is the source, or no Chinese where it should be; one word and a name may stay as they are."""
    if plan.source == "zh":
        words = sum(map(_is_han, part.hidden)) // 2  # two characters or so are a word
    else:
        words = sum(len(word) > 1 and word.strip(".,;:!?()[]&_*\"'").isalpha() for word in part.hidden.split())
    same = output == part.segment.text and words >= 2
    return same or (plan.target == "zh" and plan.source != "zh" and words >= 3 and not any(map(_is_han, output)))


def _is_small_latin(char: str) -> bool:
    """Or with an accent. What has capitals only is taken for abbreviations."""
    return "a" <= char <= "z" or "\u00c0" <= char <= "\u024f"


def _is_han(char: str) -> bool:
    return "\u3400" <= char <= "\u9fff" or "\U00020000" <= char <= "\U000323af"
