"""Training text: files → examples as piece ids → batches of equal length, in an order that can be resumed."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..config import SpecialIds, Task
from ..errors import InputError
from ..tokenizer import Tokenizer

Ids = npt.NDArray[np.uint16]
_HALF_TO_FULL = str.maketrans({",": "，", "?": "？", "!": "！", ":": "：", ";": "；", "(": "（", ")": "）"})
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"


@dataclass(frozen=True)
class Source:
    """One file of a recipe. `task`: translate (both ways), translate:en, translate:zh, summarize or answer; `weight` is
    the share of examples that are drawn from it, relative to the other sources; `limit` caps the rows (0: all);
    `case_variants` is the share of rows whose English source is added again in capitals, lower or title case."""

    path: str
    task: str
    weight: float = 1.0
    limit: int = 0
    case_variants: float = 0.0


def read_rows(path: str | Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a TSV (english<TAB>chinese) or JSON Lines file, `.gz` or not. InputError names file and line."""
    path = Path(path)
    opener = cast("Any", gzip.open if path.suffix == ".gz" else open)
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            if ".jsonl" in path.suffixes:
                yield from _read_jsonl(path, file)
            else:
                for n, row in enumerate(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 1):
                    if len(row) < 2:
                        raise InputError(f"{path} line {n}: expected english<TAB>chinese")
                    yield {"en": row[0], "zh": row[1]}
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


def _read_jsonl(path: Path, file: IO[str]) -> Iterator[Mapping[str, Any]]:
    for n, line in enumerate(file, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{path} line {n}: {error}") from error
        if not isinstance(row, dict):
            raise InputError(f"{path} line {n}: expected a JSON object")
        yield row


def chinese_punctuation(text: str) -> str:
    """ASCII punctuation after a Han character in its full-width form, as Chinese is written; spaces there dropped."""
    text = re.sub(rf"(?<=[{_HAN}])[,?!:;(](?=\s|[{_HAN}]|$)", lambda m: m[0].translate(_HALF_TO_FULL), text)
    text = re.sub(rf"(?<=[{_HAN}])\.(?=$)", "。", text)
    return re.sub(rf"(?<=[，？！：；。])\s+(?=[{_HAN}])", "", text)


def examples(source: Source, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """(task, source text, target text) for each row of a file. An answer's source is the question, a tab, the context."""
    rng = random.Random(f"{seed} {Path(source.path).name}")
    seen: set[tuple[str, str]] = set()
    for n, row in enumerate(read_rows(source.path)):
        if source.limit and n >= source.limit:
            break
        try:
            if source.task.startswith("translate"):
                english, chinese = row["en"].strip(), chinese_punctuation(row["zh"].strip())
                if not english or not chinese or (english, chinese) in seen:
                    continue
                seen.add((english, chinese))
                if source.task != "translate:en":
                    yield "translate:zh", english, chinese
                    if rng.random() < source.case_variants:
                        yield "translate:zh", rng.choice((str.upper, str.lower, str.title))(english), chinese
                if source.task != "translate:zh":
                    yield "translate:en", chinese, english
            elif source.task == "summarize":
                yield "summarize", row["text"], row["summary"]
            elif source.task == "answer":
                yield "answer", f"{row['question']}\t{row['context']}", row["answer"]
            else:
                raise InputError(f"unknown task {source.task!r} for {source.path}")
        except KeyError as error:
            raise InputError(f"{source.path} row {n + 1}: no field {error} for task {source.task}") from error


@dataclass
class Corpus:
    """The examples of one source: piece ids end to end; example i is src[src_at[i]:src_at[i+1]], tgt likewise.

    Sources end in the end piece; targets have neither their prefix nor the end. `task[i]` numbers `task_names`.
    """

    src: Ids
    src_at: npt.NDArray[np.int64]
    tgt: Ids
    tgt_at: npt.NDArray[np.int64]
    task: npt.NDArray[np.uint8]
    task_names: list[str]
    weight: float

    def __len__(self) -> int:
        return len(self.task)


def load_corpus(
    source: Source, tokenizer: Tokenizer, special: SpecialIds, tasks: Mapping[str, Task], max_length: int, cache: Path | None
) -> Corpus:
    """Reads and tokenises a file; examples longer than `max_length` pieces on a side, or (translations) more than three
    times as long on one side as on the other, are left out. With `cache` a folder the ids are kept there."""
    stat = Path(source.path).stat() if Path(source.path).exists() else None
    key = repr((source.path, source.task, source.limit, source.case_variants, max_length, stat and stat.st_size))
    key = hashlib.sha256((key + tokenizer.to_json()).encode()).hexdigest()[:16]
    file = cache / f"{Path(source.path).name}.{key}.npz" if cache else None
    names = list(tasks)
    if file and file.exists():
        with np.load(file) as z:
            return Corpus(z["src"], z["src_at"], z["tgt"], z["tgt_at"], z["task"], names, source.weight)
    rows = list(examples(source))
    src = tokenizer.encode_batch(s for _, s, _ in rows)
    tgt = tokenizer.encode_batch(t for _, _, t in rows)
    keep = []
    for i, (name, _, _) in enumerate(rows):
        prefix = list(tasks[name].src_prefix)
        src[i] = prefix + src[i] + [special.eos]
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
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, src=corpus.src, src_at=corpus.src_at, tgt=corpus.tgt, tgt_at=corpus.tgt_at, task=corpus.task)
    print(f"{source.path}: {len(rows)} examples, {len(keep)} kept", file=sys.stderr)
    return corpus


@dataclass
class Batch:
    """src [B, S] and tgt_in, labels [B, T], long. Labels are −100 on padding; src_mask is None without padding."""

    src: Tensor
    src_mask: Tensor | None
    tgt_in: Tensor
    labels: Tensor
    n_tokens: int  # source and target pieces, padding not counted


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
        """Continues from a `state()` of a stream over the same corpora."""
        self.pool_number, self.drawn = state["pool_number"], list(state["drawn"])
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
        pool: list[tuple[int, int, int, int]] = []  # source length, target length, corpus, example
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
            tgt_length = int(c.tgt_at[example + 1] - c.tgt_at[example]) + 1
            pool.append((src_length, tgt_length, corpus, example))
            tokens += src_length + tgt_length
        # Ties in random order: without it a batch would hold one corpus only.
        noise = rng.permutation(len(pool))
        pool = [pool[i] for i in noise]
        pool.sort(key=lambda e: (e[0], e[1]))
        self._plan = []
        batch: list[tuple[int, int]] = []
        longest_src = longest_tgt = 0
        for src_length, tgt_length, corpus, example in pool:
            longest = max(longest_src, src_length), max(longest_tgt, tgt_length)
            if batch and (
                sum(longest) * (len(batch) + 1) > self.batch_tokens
                or (src_length != longest_src and sum(longest) * len(batch) > 0.5 * self.batch_tokens)
            ):
                self._plan.append(batch)
                batch, longest = [], (src_length, tgt_length)
            batch.append((corpus, example))
            longest_src, longest_tgt = longest
        self._plan.append(batch)
        self._plan = [self._plan[i] for i in rng.permutation(len(self._plan))]

    def _collate(self, rows: Sequence[tuple[int, int]]) -> Batch:
        sources, prefixes, targets = [], [], []
        for corpus, example in rows:
            c = self.corpora[corpus]
            sources.append(c.src[c.src_at[example] : c.src_at[example + 1]])
            targets.append(c.tgt[c.tgt_at[example] : c.tgt_at[example + 1]])
            task = self.tasks[c.task_names[c.task[example]]]
            prefixes.append(list(task.tgt_prefix) or [self.special.decoder_start])
        n_src = [len(s) for s in sources]
        n_tgt = [len(p) + len(t) for p, t in zip(prefixes, targets, strict=True)]
        src = np.full((len(rows), max(n_src)), self.special.pad, np.int64)
        tgt_in = np.full((len(rows), max(n_tgt)), self.special.pad, np.int64)
        labels = np.full((len(rows), max(n_tgt)), -100, np.int64)
        for r, (s, p, t) in enumerate(zip(sources, prefixes, targets, strict=True)):
            src[r, : len(s)] = s
            tgt_in[r, : n_tgt[r]] = np.concatenate((p, t))
            labels[r, len(p) - 1 : n_tgt[r] - 1] = t
            labels[r, n_tgt[r] - 1] = self.special.eos
        mask = None
        if min(n_src) != max(n_src):
            mask = torch.from_numpy(np.arange(max(n_src))[None] < np.array(n_src)[:, None])
        n_tokens = sum(n_src) + sum(len(t) + 1 for t in targets)
        return Batch(torch.from_numpy(src), mask, torch.from_numpy(tgt_in), torch.from_numpy(labels), n_tokens)
