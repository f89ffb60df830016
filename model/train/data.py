"""Training text: files → examples as piece ids → batches of equal length, in an order that can be resumed."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import json
import os
import random
import re
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import spans
from ..config import SpecialIds, Task
from ..errors import ConfigError, InputError
from ..tokenizer import Tokenizer
from . import slots

Ids = npt.NDArray[np.uint16]
MAX_PLACES = 8  # more occurrences of one answer than this are not told to the model
TASKS = ("translate", "translate:en", "translate:zh", "summarize", "answer", "answer:generate")
GROUPS = ("translate", "summarize", "answer", "answer:generate")  # examples that may share a batch
_HALF_TO_FULL = str.maketrans({",": "，", "?": "？", "!": "！", ":": "：", ";": "；"})
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"


@dataclass(frozen=True)
class Source:
    """One file of a recipe. `task`: translate (both ways), translate:en, translate:zh, summarize, answer (the target is
    where the answer stands) or answer:generate (the target is the answer's pieces); `weight` is the share of examples
    that are drawn from it, relative to the other sources; `limit` caps the rows (0: all);
    `case_variants` is the share of rows whose English source is added again in capitals, lower or title case,
    `bare_variants` that of rows which are added again without the full stop, question or exclamation mark at their end
    (on both sides): what people type has none, and should not get one. `max_length` replaces the recipe's; of a text with
    questions up to `window` pieces are read at once (0: as many as fit); `elsewhere` is the share of the longer ones of which
    a window is read that does not have the answer. With `slots` what must come through unchanged is replaced by slots, in
    nine rows of ten that have such; `term_variants` is the share of rows that are added again with slots for words of the
    dictionary `terms` (a file like this one), a fifth of them with a slot beside the sentence too."""

    path: str
    task: str
    weight: float = 1.0
    limit: int = 0
    max_length: int = 0
    window: int = 0
    elsewhere: float = 0.0
    case_variants: float = 0.0
    bare_variants: float = 0.0
    slots: bool = False
    term_variants: float = 0.0
    terms: str = ""


def read_rows(path: str | Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a TSV (english<TAB>chinese) or JSON Lines file, `.gz` or not. InputError names file and line."""
    path = Path(path)
    json_lines = ".jsonl" in path.suffixes
    for n, line in read_lines(path):
        if json_lines:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path} line {n}: {error}") from error
            if not isinstance(row, dict):
                raise InputError(f"{path} line {n}: expected a JSON object")
            yield row
        else:
            fields = line.split("\t")
            if len(fields) < 2:
                raise InputError(f"{path} line {n}: expected english<TAB>chinese")
            yield {"en": fields[0], "zh": fields[1]}


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file without their ends, counted from 1."""
    opener = cast("Any", gzip.open if path.suffix == ".gz" else open)
    try:
        with opener(path, "rb") as file:
            for n, line in enumerate(file, 1):
                try:
                    text = line.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise InputError(f"{path} line {n}: not UTF-8 (byte {error.start + 1} of the line)") from error
                yield n, text.rstrip("\r\n")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def chinese_punctuation(text: str) -> str:
    """ASCII punctuation after a Han character, and brackets around Han characters, in full-width form, as Chinese is
    written; spaces after it dropped."""
    text = re.sub(rf"\(([^()]*[{_HAN}][^()]*)\)", r"（\1）", text)
    text = re.sub(rf"(?<=[{_HAN}])[,?!:;](?=\s|[{_HAN}]|$)", lambda m: m[0].translate(_HALF_TO_FULL), text)
    text = re.sub(rf"(?<=[{_HAN}])\.(?=$)", "。", text)
    return re.sub(rf"(?<=[，？！：；。])\s+(?=[{_HAN}])", "", text)


def examples(source: Source, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """(task, source text, target text) for each row of a file. An answer's source is the question, a tab, the context.

    Translations with an empty side and repeated pairs are left out. InputError names the file and, where there is one,
    the row."""
    if source.task not in TASKS:
        raise InputError(f"unknown task {source.task!r} for {source.path}: expected one of {', '.join(TASKS)}")
    rng = random.Random(f"{seed} {Path(source.path).name}")
    seen: set[tuple[str, str]] = set()
    terms = (
        slots.read_terms([(_text(row, "en"), _text(row, "zh")) for row in read_rows(source.terms)])
        if source.terms
        else {}
    )
    for n, row in enumerate(read_rows(source.path)):
        if source.limit and n >= source.limit:
            break
        try:
            if source.task.startswith("translate"):
                english, chinese = _text(row, "en").strip(), chinese_punctuation(_text(row, "zh").strip())
                if not english or not chinese or (english, chinese) in seen:
                    continue
                seen.add((english, chinese))
                variant = None
                if rng.random() < source.term_variants:
                    variant = slots.with_terms(english, chinese, terms, rng)
                    if rng.random() < 0.2:
                        variant = slots.beside(*(variant or (english, chinese)), rng)
                if source.slots and rng.random() < 0.9:
                    english, chinese = slots.slotted(english, chinese, rng) or (english, chinese)
                if variant:
                    if source.task != "translate:en":
                        yield "translate:zh", variant[0], variant[1]
                    if source.task != "translate:zh":
                        yield "translate:en", variant[1], variant[0]
                if source.task != "translate:en":
                    yield "translate:zh", english, chinese
                    if rng.random() < source.case_variants:
                        yield "translate:zh", rng.choice((str.upper, str.lower, str.title))(english), chinese
                if source.task != "translate:zh":
                    yield "translate:en", chinese, english
                if source.bare_variants and english[-1] in ".!?" and chinese[-1] in "。！？":
                    english, chinese = english.rstrip(".!?"), chinese.rstrip("。！？")
                    for task, *pair in (("translate:zh", english, chinese), ("translate:en", chinese, english)):
                        if source.task in ("translate", task) and all(pair) and rng.random() < source.bare_variants:
                            yield task, pair[0], pair[1]
            elif source.task == "summarize":
                yield "summarize", _text(row, "text"), _text(row, "summary")
            else:
                yield "answer", f"{_text(row, 'question')}\t{_text(row, 'context')}", _text(row, "answer")
        except KeyError as error:
            raise InputError(f"{source.path} row {n + 1}: no text field {error} for task {source.task}") from error


def _text(row: Mapping[str, Any], field: str) -> str:
    """A field of a row; KeyError if it is missing or no text."""
    value = row[field]
    if not isinstance(value, str):
        raise KeyError(field)
    return value


@dataclass
class Corpus:
    """The examples of one source: piece ids end to end; example i is src[src_at[i]:src_at[i+1]], tgt likewise.

    Sources end in the end piece; targets have neither their prefix nor the end. `task[i]` numbers `task_names`.
    `group` is one of GROUPS; the targets of "answer" are places in the source.
    """

    src: Ids
    src_at: npt.NDArray[np.int64]
    tgt: Ids
    tgt_at: npt.NDArray[np.int64]
    task: npt.NDArray[np.uint8]
    task_names: list[str]
    weight: float
    kinds: npt.NDArray[np.uint8] | None = None  # of answers both ways: the kind of each source piece
    group: str = "translate"

    def __len__(self) -> int:
        return len(self.task)


def load_corpus(
    source: Source,
    tokenizer: Tokenizer,
    special: SpecialIds,
    tasks: Mapping[str, Task],
    max_length: int,
    cache: Path | None,
) -> Corpus:
    """Reads and tokenises a file; examples longer than `max_length` pieces on a side, or (translations) more than three
    times as long on one side as on the other, are left out; the end piece counts.

    With `cache` a folder the ids are kept there, until the file changes. One folder serves one list of tasks."""
    stat = Path(source.path).stat() if Path(source.path).exists() else None
    key = repr((dataclasses.replace(source, weight=0), max_length, stat and stat.st_size))
    key = hashlib.sha256((key + tokenizer.to_json()).encode()).hexdigest()[:16]
    file = cache / f"{Path(source.path).name}.{key}.npz" if cache else None
    names, group = list(tasks), "translate" if source.task.startswith("translate") else source.task
    if file and stat and file.exists() and file.stat().st_mtime >= stat.st_mtime:
        with np.load(file) as z:
            kinds = z["kinds"] if len(z["kinds"]) else None
            return Corpus(z["src"], z["src_at"], z["tgt"], z["tgt_at"], z["task"], names, source.weight, kinds, group)
    read = _answers if source.task.startswith("answer") else _texts
    corpus = read(source, tokenizer, special, tasks, source.max_length or max_length)
    corpus.group = group
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part.npz")  # renamed when whole: an interruption leaves no torn file
        np.savez(
            part,
            src=corpus.src,
            src_at=corpus.src_at,
            tgt=corpus.tgt,
            tgt_at=corpus.tgt_at,
            task=corpus.task,
            kinds=np.zeros(0, np.uint8) if corpus.kinds is None else corpus.kinds,
        )
        os.replace(part, file)
    return corpus


def _texts(
    source: Source, tokenizer: Tokenizer, special: SpecialIds, tasks: Mapping[str, Task], max_length: int
) -> Corpus:
    names = list(tasks)
    rows = list(examples(source))
    src = tokenizer.encode_batch(s for _, s, _ in rows)
    tgt = tokenizer.encode_batch(t for _, _, t in rows)
    keep = []
    for i, (name, _, _) in enumerate(rows):
        prefix = list(tasks[name].src_prefix)
        room = max_length - len(prefix) - 1  # a text to be summed up may be cut: its beginning says most
        src[i] = prefix + (src[i][:room] if name == "summarize" else src[i]) + [special.eos]
        a, b = len(src[i]), len(tgt[i]) + 1
        if max(a, b) <= max_length and (not name.startswith("translate") or max(a, b) <= 3 * min(a, b) + 4):
            keep.append(i)
    corpus = Corpus(
        np.array([p for i in keep for p in src[i]], np.uint16),
        np.cumsum([0] + [len(src[i]) for i in keep]),
        np.array([p for i in keep for p in tgt[i]], np.uint16),
        np.cumsum([0] + [len(tgt[i]) for i in keep]),
        np.array([names.index(rows[i][0]) for i in keep], np.uint8),
        names,
        source.weight,
    )
    print(f"{source.path}: {len(rows)} examples, {len(keep)} kept", file=sys.stderr)
    return corpus


def _answers(
    source: Source, tokenizer: Tokenizer, special: SpecialIds, tasks: Mapping[str, Task], max_length: int
) -> Corpus:
    """Questions with the places of their answers: the target of an example is up to MAX_PLACES pairs of places in its
    source, the first and the last piece of the answer wherever it stands; where it does not, the end piece twice. Of
    answer:generate it is the pieces at the first of the places, none where there is none. The windows are the same."""
    rng = random.Random(Path(source.path).name)
    prefix = tasks["answer"].src_prefix
    reader = spans.Reader(tokenizer, prefix, special.eos)
    src: list[list[int]] = []
    kinds: list[npt.NDArray[np.uint8]] = []
    tgt: list[list[int]] = []
    contexts: dict[str, spans.Text] = {}
    n = 0
    for n, row in enumerate(read_rows(source.path), 1):
        if source.limit and n > source.limit:
            break
        try:
            text, question, answer = _text(row, "context"), _text(row, "question"), _text(row, "answer")
        except KeyError as error:
            raise InputError(f"{source.path} row {n}: no text field {error} for task {source.task}") from error
        if text not in contexts:
            if len(contexts) > 1000:
                contexts.clear()
            contexts[text] = reader.text(text)
        read = contexts[text]
        n_pieces = len(read.ids)
        asked = reader.question(question, max_length // 3)
        places = spans.occurrences(text, answer, read.offsets)
        if not n_pieces or (answer and not places):
            continue
        room = max_length - len(asked.ids) - len(prefix) - 2
        room = min(room, source.window) if source.window else room
        first, last = 0, n_pieces
        if n_pieces > room:
            a, b = rng.choice(places) if places else (rng.randrange(n_pieces),) * 2
            if b - a >= room:
                continue
            first = rng.randint(max(0, b + 1 - room), min(a, n_pieces - room))
            elsewhere = [w for w in range(0, n_pieces - room + 1, 10) if all(b < w or w + room <= a for a, b in places)]
            if elsewhere and rng.random() < source.elsewhere:
                first = rng.choice(elsewhere)
            last = first + room
        row_ids, row_kinds, start = reader.source(asked, read, first, last)
        inside = [(a - first + start, b - first + start) for a, b in places if first <= a and b < last][:MAX_PLACES]
        src.append(row_ids)
        kinds.append(row_kinds)
        if source.task == "answer":
            tgt.append([p for pair in inside for p in pair] or [len(row_ids) - 1] * 2)
        else:
            tgt.append(row_ids[inside[0][0] : inside[0][1] + 1] if inside else [])
    print(f"{source.path}: {n} examples, {len(src)} kept", file=sys.stderr)
    return Corpus(
        np.array([p for row in src for p in row], np.uint16),
        np.cumsum([0] + [len(row) for row in src]),
        np.array([p for row in tgt for p in row], np.uint16),
        np.cumsum([0] + [len(row) for row in tgt]),
        np.full(len(src), list(tasks).index("answer"), np.uint8),
        list(tasks),
        source.weight,
        np.concatenate(kinds) if kinds else np.zeros(0, np.uint8),
    )


@dataclass
class Batch:
    """src [B, S] and tgt_in, labels [B, T], long. Labels are −100 on padding; src_mask is None without padding."""

    src: Tensor
    src_mask: Tensor | None
    tgt_in: Tensor
    labels: Tensor
    n_tokens: int  # source and target pieces, padding not counted
    kinds: Tensor | None = None  # of answers both ways: [B, S]
    places: Tensor | None = None  # of answers that are pointed at: [B, K, 2], −1 where there are fewer
    group: str = "translate"  # one of GROUPS


class Batches:
    """An endless stream of batches. Pools of examples, drawn by the sources' weights, are sorted by length and cut into
    batches of about `batch_tokens` source + target pieces; the batches of a pool come in random order.

    `state()` and `restore()` make it resumable: the stream after restoring is the one that would have followed.
    """

    def __init__(
        self, corpora: Sequence[Corpus], special: SpecialIds, tasks: Mapping[str, Task],
        batch_tokens: int, pool_batches: int = 50, seed: int = 0,
    ) -> None:  # fmt: skip
        self.corpora = [c for c in corpora if len(c) and c.weight > 0]
        if not self.corpora:
            raise InputError("no training examples: every source is empty or has no weight")
        self.special, self.tasks = special, tasks
        self.batch_tokens, self.pool_batches, self.seed = batch_tokens, pool_batches, seed
        self.drawn = [0] * len(self.corpora)  # examples taken of each corpus so far, over all passes
        self.pool_number = self.next_in_pool = 0
        self.pool_start = list(self.drawn)
        self._orders: dict[int, tuple[int, npt.NDArray[np.int64]]] = {}
        self._plan: list[list[tuple[int, int]]] = []

    def state(self) -> dict[str, Any]:
        """Where the stream stands: plain numbers."""
        return {"pool_number": self.pool_number, "next_in_pool": self.next_in_pool, "drawn": list(self.pool_start)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continues from a `state()` of a stream over the same corpora. ConfigError if there are more or fewer now."""
        if len(state["drawn"]) != len(self.corpora):
            raise ConfigError(f"the run has {len(state['drawn'])} sources, the recipe {len(self.corpora)}")
        self.pool_number, self.drawn = state["pool_number"], list(state["drawn"])
        self.pool_start = list(self.drawn)
        self._plan = []
        self.next_in_pool = 0
        if state["next_in_pool"]:
            self._new_pool()
            self.next_in_pool = state["next_in_pool"]

    def passes(self) -> list[float]:
        """How often each corpus has been gone through."""
        return [drawn / len(c) for drawn, c in zip(self.drawn, self.corpora, strict=True)]

    def __iter__(self) -> Iterator[Batch]:
        while True:
            if self.next_in_pool >= len(self._plan):
                if self._plan:
                    self.pool_number += 1
                self._new_pool()
            batch = self._collate(self._plan[self.next_in_pool])
            self.next_in_pool += 1
            yield batch

    def _order(self, corpus: int, epoch: int) -> npt.NDArray[np.int64]:
        cached = self._orders.get(corpus)
        if cached is None or cached[0] != epoch:
            rng = np.random.default_rng((self.seed, 1, corpus, epoch))
            cached = self._orders[corpus] = (epoch, rng.permutation(len(self.corpora[corpus])))
        return cached[1]

    def _new_pool(self) -> None:
        self.pool_start, self.next_in_pool = list(self.drawn), 0
        rng = np.random.default_rng((self.seed, 2, self.pool_number))
        weights = np.array([c.weight for c in self.corpora])
        choices = rng.choice(len(self.corpora), size=4096, p=weights / weights.sum())
        pool: list[tuple[int, int, int, int, int]] = []  # number of the group, source, target length, corpus, example
        tokens, k = 0, 0
        while tokens < self.batch_tokens * self.pool_batches:
            if k == len(choices):
                choices, k = rng.choice(len(self.corpora), size=4096, p=weights / weights.sum()), 0
            corpus = int(choices[k])
            k += 1
            epoch, place = divmod(self.drawn[corpus], len(self.corpora[corpus]))
            self.drawn[corpus] += 1
            example = int(self._order(corpus, epoch)[place])
            c = self.corpora[corpus]
            src_length = int(c.src_at[example + 1] - c.src_at[example])
            tgt_length = 2 if c.group == "answer" else int(c.tgt_at[example + 1] - c.tgt_at[example]) + 1
            pool.append((GROUPS.index(c.group), src_length, tgt_length, corpus, example))
            tokens += src_length + tgt_length
        # Ties in random order: without it a batch would hold one corpus only.
        noise = rng.permutation(len(pool))
        pool = [pool[i] for i in noise]
        pool.sort(key=lambda e: e[:3])
        self._plan = []
        batch: list[tuple[int, int]] = []
        longest_src = longest_tgt = last_group = 0
        for group, src_length, tgt_length, corpus, example in pool:
            longest = max(longest_src, src_length), max(longest_tgt, tgt_length)
            if batch and (
                group != last_group
                or sum(longest) * (len(batch) + 1) > self.batch_tokens
                or (src_length != longest_src and sum(longest) * len(batch) > 0.5 * self.batch_tokens)
            ):
                self._plan.append(batch)
                batch, longest = [], (src_length, tgt_length)
            batch.append((corpus, example))
            last_group = group
            longest_src, longest_tgt = longest
        self._plan.append(batch)
        self._plan = [self._plan[i] for i in rng.permutation(len(self._plan))]

    def _collate(self, rows: Sequence[tuple[int, int]]) -> Batch:
        group = self.corpora[rows[0][0]].group
        sources = [self._part("src", *row) for row in rows]
        lengths = [len(s) for s in sources]
        src = self._padded(sources, self.special.pad)
        mask = None
        if min(lengths) != max(lengths):
            mask = torch.from_numpy(np.arange(max(lengths))[None] < np.array(lengths)[:, None])
        kinds = None
        if self.corpora[rows[0][0]].kinds is not None:
            kinds = self._padded([self._part("kinds", *row) for row in rows], 0)
        targets = [self._part("tgt", *row) for row in rows]
        if group == "answer":
            tgt_in = torch.tensor([[*self.tasks["answer"].tgt_prefix, self.special.eos]] * len(rows))
            pairs = self._padded([np.pad(t, (0, 2 * MAX_PLACES - len(t)), constant_values=-1) for t in targets], -1)
            places, empty = pairs.reshape(len(rows), MAX_PLACES, 2), torch.zeros(0, dtype=torch.long)
            return Batch(src, mask, tgt_in, empty, sum(lengths) + 2 * len(rows), kinds, places, group)
        prefixes = []
        for corpus, example in rows:
            c = self.corpora[corpus]
            task = self.tasks[c.task_names[c.task[example]]]
            prefixes.append(list(task.tgt_prefix) or [self.special.decoder_start])
        tgt_in = self._padded([[*p, *t] for p, t in zip(prefixes, targets, strict=True)], self.special.pad)
        # Nothing is learnt inside a prefix; from its last piece on, the next piece.
        ignored = [[-100] * (len(p) - 1) for p in prefixes]
        labels = self._padded([[*i, *t, self.special.eos] for i, t in zip(ignored, targets, strict=True)], -100)
        n_tokens = sum(lengths) + sum(len(t) + 1 for t in targets)
        return Batch(src, mask, tgt_in, labels, n_tokens, kinds, None, group)

    def _part(self, name: str, corpus: int, example: int) -> npt.NDArray[np.int64]:
        """The source, the kinds of its pieces, or the target of an example."""
        c = self.corpora[corpus]
        at = c.tgt_at if name == "tgt" else c.src_at
        part: npt.NDArray[np.int64] = getattr(c, name)[at[example] : at[example + 1]].astype(np.int64)
        return part

    @staticmethod
    def _padded(rows: Sequence[Sequence[int] | npt.NDArray[np.int64]], fill: int) -> Tensor:
        """The rows [B, longest], filled up with `fill` on the right."""
        padded = np.full((len(rows), max(map(len, rows))), fill, np.int64)
        for r, row in enumerate(rows):
            padded[r, : len(row)] = row
        return torch.from_numpy(padded)
