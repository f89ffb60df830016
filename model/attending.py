"""Text in, attention maps out: a task is run as its command runs it, then one forced pass over the finished pair.

The search computes the same weights, but piece by piece and for every hypothesis of a beam; they are computed once more
for its output alone. A pair of S source and T target pieces leaves 4 · H · (L_e S² + L_d T S + L_d T²) bytes of weights
(H heads, L_e and L_d layers): with the default model 12.8 MB for S = T = 200, the longest segment, 3.9 MB for S = 128
and T = 64, the longest summary's, and 0.8 MB for a sentence of some 40 words.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import protect
from .checkpoint import resolve_model
from .errors import InputError, TxError, UsageError
from .pair_maps import PairMaps, with_kept_map
from .pipeline import Translator
from .plans import Part
from .results import AttentionMap, Hypothesis, Token
from .runtime import Job, Runtime, check_text
from .token_places import text_and_tokens

if TYPE_CHECKING:
    from .alignment import Link
    from .answering import Answerer
    from .glossary import Glossary
    from .summarizing import Summarizer

TASKS = ("translate", "summarize", "qa")


class Attender:
    """Shows where the model looked. `model` and the other settings are those of `Runtime`."""

    def __init__(self, model: str | Path | Runtime | None = None, **settings: Any) -> None:
        self.runtime = model if isinstance(model, Runtime) else Runtime(model, **settings)
        self._translator = Translator(self.runtime)
        self._maps = PairMaps(self.runtime)
        self._aligned: dict[tuple[str, str, str], list[Link]] = {}

    def attend(
        self,
        text: str,
        *,
        task: str = "translate",
        target: str | None = None,
        question: str | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        beam_size: int | None = None,
        part: int | None = None,
        glossary: Glossary | None = None,
    ) -> list[AttentionMap]:
        """Runs a task, and returns all weights of the pass that belongs to its output.

        "translate": a map for each segment that is translated, in order; with `part`, counted from 1, only that one.

        "summarize": one map, of the summary in the model's own words and what it read for it: the text, tidied, or as
        many of its sentences as it reads at once; `offset` is 0. `output` is what the model wrote, before anything is put
        right in it (a mark that is missing at its end).

        "qa": one map, of the window of the text in which the best answer to `question` stands, good enough to be given
        or not. `source` is what the encoder read, the question, a tab and the window, which begins at character `offset`
        of the text. The first row of cross and decoder is where the answer starts (its first piece), the second where it
        ends (its last piece); what decides is the last layer's head `config.POINTING_HEAD`. A model of others writes its
        answer: the map is that of what it wrote.

        The terms of a `glossary` come out of a translation as that says.

        `target` is a text that the model is made to give instead of searching for one: a translation of one segment, or
        a summary.

        Flags of a map: "split", "cut", "looped", "lost" and "untranslated" as of a Translation (an output that was cut or looped has no end
        piece); "copied" and "extracted": the task does not give what the model wrote, but the text or a sentence of it;
        "kept": something beside the sentences (an emoji, a line without letters) was copied, and is in no map;
        "parts" and "skimmed" as of a Summary, "skimmed" also if not all windows were read for an answer; "doubtful": the
        answer's score is below the threshold, so that none is given; "shortened": the end of the question was not read.

        Raises InputError for a text with nothing to do in it or nothing found, for a `target` that does not fit, and
        for text that UTF-8 cannot hold; UsageError for settings that do not go together or are out of range, and an
        unknown direction; CheckpointError for a model that lacks the task or cannot be read.
        """
        if task not in TASKS:
            raise UsageError(f"task must be one of {', '.join(TASKS)}, not {task!r}")
        check_text("the text", text)
        for name, given in (("target", target), ("question", question)):
            if given is not None:
                check_text(f"the {name}", given)
        if (task == "qa") != (question is not None):
            raise UsageError("the task qa needs a question, and no other task takes one")
        languages = {
            "source_language": source_language,
            "target_language": target_language,
            "part": part,
            "glossary": glossary,
        }
        others = {"target": target, "beam_size": beam_size} if task == "qa" else {}
        for name, value in {**languages, **others}.items():
            if task != "translate" and value is not None:
                raise UsageError(f"{name} means nothing to the task {task}")
        try:
            if question is not None:
                return [self._answer(text, question)]
            if task == "summarize":
                return [self._summarize(text, target, beam_size)]
            return self._translate(text, target, source_language, target_language, beam_size, part, glossary)
        finally:
            self.runtime.checkpoint.verify()  # of damaged weights not even an error says anything

    def align(self, map: AttentionMap) -> list[Link]:
        """Which word of a translation's source belongs to which of its output, as module alignment counts them.

        By the maps of both directions, if the model translates both and takes the two texts for one segment each; else by this
        one."""
        from . import alignment

        there = self.runtime.checkpoint.config.tasks.get(map.task)
        if there is None or not map.task.startswith("translate:"):
            raise UsageError(f"words are aligned in a translation, and the task {map.task} is none")
        key = map.task, map.source, map.output
        if key not in self._aligned:
            try:
                [reverse] = self.attend(
                    map.output, target=map.source, source_language=there.target, target_language=there.source
                )
                self._aligned[key] = alignment.align(map, reverse)
            except (TxError, ValueError):  # no such direction, several sentences, or another text at its end
                self._aligned[key] = alignment.align(map)
        return self._aligned[key]

    def _translate(
        self,
        text: str,
        target: str | None,
        source_language: str | None,
        target_language: str | None,
        beam_size: int | None,
        part: int | None,
        glossary: Glossary | None,
    ) -> list[AttentionMap]:
        plan = self._translator.plan(text, source=source_language, target=target_language, glossary=glossary)
        if not plan.parts:
            _check_letters(text, "to translate")
            raise InputError(
                f"the text is in {plan.target!r} already: say which language it is in, or ask for another one"
            )
        places: list[tuple[Part, int]] = []
        offset = 0
        for piece in plan.parts:
            if piece.job:
                places.append((piece, offset))
            offset += len(piece.segment.text)
        if part is not None and (type(part) is not int or not 1 <= part <= len(places)):
            raise InputError(f"there is no part {part!r} of the text: it is translated in {len(places)}")
        if target is not None and len(places) > 1:
            raise InputError(f"a given target is for one sentence, but the text is translated in {len(places)} parts")
        if not places:
            raise InputError("nothing in the text is translated: there is no map of it")
        wanted = range(1, len(places) + 1) if part is None else [part]
        chosen = [places[number - 1] for number in wanted]
        if target is None:
            found = self._translator.best([piece for piece, _ in chosen], beam_size)
        else:
            found = [
                self._maps.forced(protect.hide_same(target, piece.kept), piece.job[0])
                for piece, _ in chosen
                if piece.job
            ]
        beside = any(not piece.job and piece.segment.text.strip() for piece in plan.parts)
        maps: dict[tuple[Job, Hypothesis], AttentionMap] = {}
        results = []
        for number, (piece, offset), best in zip(wanted, chosen, found, strict=True):
            assert piece.job
            key = piece.job, best
            if key not in maps:
                maps[key] = self._maps.written(piece.job, best, plan.flags | ({"kept"} if beside else set()))
            map = with_kept_map(maps[key], piece.kept)
            flags = {*map.flags, "lost"} if protect.missing(piece.wanted, map.output) and map.output else set(map.flags)
            results.append(
                dataclasses.replace(map, part=number, parts=len(places), offset=offset, flags=tuple(sorted(flags)))
            )
        return results

    def _summarize(self, text: str, target: str | None, beam_size: int | None) -> AttentionMap:
        checkpoint = self.runtime.checkpoint
        self.runtime.task("summarize")
        _check_letters(text, "to sum up")
        reading, parts = self._summarizer.reading(self._summarizer.read(text))
        job = self._summarizer.job(reading)
        if target is None:
            best = self._summarizer.search(reading, beam_size)
            given = self._summarizer.summarize(text)  # what `tx summarize` gives
            is_text, is_sentence = "copied" in given.flags, bool(given.spans)
        else:
            best, is_text, is_sentence = self._maps.forced(target, "summarize"), False, False
        cut = len(checkpoint.tokenizer.encode(reading)) > self._summarizer.room
        flags = {
            "parts": parts > 1,
            "skimmed": parts > 1 or cut,
            "copied": is_text,
            "extracted": is_sentence and not is_text,
        }
        return self._maps.written(job, best, {flag for flag, holds in flags.items() if holds})

    def _answer(self, context: str, question: str) -> AttentionMap:
        for name, text in (("text", context), ("question", question)):
            if not any(map(str.isalnum, text)):
                raise InputError(f"the {name} has neither letters nor digits: there is nothing to look for")
        best, read, windows = self._answerer.best_candidate(context, question)
        if best is None:
            raise InputError("the text has no answer to the question, not even a doubtful one: ask it otherwise")
        checkpoint = self.runtime.checkpoint
        tokenizer, task, eos = checkpoint.tokenizer, checkpoint.config.tasks["answer"], checkpoint.config.special.eos
        ids, at = best.source.ids, best.source.first
        flags = {
            "doubtful": best.score < self._answerer.threshold,
            "skimmed": read < windows,
            "shortened": self._answerer.cut(question),
        }
        said = {flag for flag, holds in flags.items() if holds}
        if not self._answerer.points:
            read_ids = tuple(ids[len(task.src_prefix) : -1 - len(task.src_suffix)])
            written = Hypothesis(tuple(self._answerer.written(best)), 0.0, 0.0)
            return dataclasses.replace(self._maps.written(("answer", read_ids), written, said), offset=best.window)
        asked, question_pieces = text_and_tokens(tokenizer, ids[len(task.src_prefix) : at - 1])
        read_text, window = text_and_tokens(tokenizer, ids[at:-1])
        source = f"{asked}\t{read_text}"
        shift = len(asked) + 1
        src = [
            *self._maps.special(task.src_prefix, 0),
            *question_pieces,
            Token("\t", len(asked), len(asked), special=True),
            *(dataclasses.replace(p, start=p.start + shift, end=p.end + shift) for p in window),
            *self._maps.special([eos], len(source)),
        ]
        prefix = task.tgt_prefix or (checkpoint.config.special.decoder_start,)
        return self._maps.map(
            ("answer", source, context[best.start : best.end]),
            (ids, [*prefix, eos], best.source.kinds),
            (src, [src[at + best.first], src[at + best.last]], self._maps.special([*prefix, eos], 0, "target")),
            list(said),
            offset=best.window,
        )

    @functools.cached_property
    def _summarizer(self) -> Summarizer:
        from .summarizing import Summarizer

        return Summarizer(self.runtime)

    @functools.cached_property
    def _answerer(self) -> Answerer:
        from .answering import Answerer

        return Answerer(self.runtime)


def _check_letters(text: str, what: str) -> None:
    if not any(map(str.isalpha, text)):
        raise InputError(f"the text has no letters: there is nothing {what}" if text.strip() else "the text is empty")


@functools.cache
def _attender(path: Path) -> Attender:
    return Attender(path)


def attend(
    text: str,
    *,
    part: int | None = None,
    task: str = "translate",
    target: str | None = None,
    question: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
    beam_size: int | None = None,
    glossary: Glossary | None = None,
    model: str | Path | None = None,
) -> AttentionMap:
    """Where the model looked while it translated a text, summed it up or looked for an answer in it. A model stays loaded
    for the next call.

    A text of several sentences is translated in parts, each of which has a map: `part`, counted from 1, says which;
    InputError if it is missing. All else as `Attender.attend`.
    """
    attender = _attender(resolve_model(model).resolve())
    (found,) = attender.attend(
        text,
        task=task,
        target=target,
        question=question,
        source_language=source_language,
        target_language=target_language,
        beam_size=beam_size,
        glossary=glossary,
        part=1 if part is None and task == "translate" and target is None else part,
    )
    if part is None and found.parts > 1:
        raise InputError(f"the text is translated in {found.parts} parts: say which, part=1 … {found.parts}")
    return found
