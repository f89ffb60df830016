"""Training data: files are read or refused by line, nothing is lost or repeated on the way into batches, and the
stream of batches goes on after an interruption as if there had been none."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from tx.model.config import CheckpointConfig, SpecialIds, Task
from tx.model.errors import ConfigError, InputError
from tx.model.tokenizer import Tokenizer
from tx.model.train.data import Batch, Batches, Corpus, Source, chinese_punctuation, examples, load_corpus, read_rows

ROWS = [("The cat.", "猫。"), ("We go home", "我们回家"), ("Hello, world", "你好，世界")]


def tsv(rows: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{en}\t{zh}\n" for en, zh in rows)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.tsv", "rows.tsv.gz"])
def test_tsv_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    content = 'one\t一\n"quoted\t"两"\tignored\nlast\t三\r\n'.encode()
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    expected = [{"en": "one", "zh": "一"}, {"en": '"quoted', "zh": '"两"'}, {"en": "last", "zh": "三"}]
    assert list(read_rows(path)) == expected


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz"])
def test_json_lines_are_read(tmp_path: Path, name: str) -> None:
    path, rows = tmp_path / name, [{"text": "long\ttext", "summary": "短"}, {"text": "", "summary": "", "more": 1}]
    content = "\n".join(json.dumps(r, ensure_ascii=False) for r in rows).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith("gz") else content)
    assert list(read_rows(path)) == rows


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", b"one\t1\nno second column\n", r"a\.tsv line 2: expected english<TAB>chinese"),
        ("a.tsv", b"one\t1\n\ntwo\t2\n", r"a\.tsv line 2"),
        ("a.tsv", b"one\t1\ntwo\t\xff2\n", r"a\.tsv line 2: not UTF-8 \(byte 5"),
        ("a.tsv.gz", b"plain\ttext\n", r"a\.tsv\.gz: .*gzip"),
        ("a.tsv.gz", gzip.compress(b"one\t1\n" * 5000, mtime=0)[:-20], r"a\.tsv\.gz: "),
        ("a.tsv.gz", gzip.compress(b"one\t1\n", mtime=0)[:10] + b"\xff" * 30, r"a\.tsv\.gz: "),
        ("a.jsonl", b'{"text": "x"}\n{"text": \n', r"a\.jsonl line 2: "),
        ("a.jsonl", b'{"text": "x"}\n["a list"]\n', r"a\.jsonl line 2: expected a JSON object"),
        ("a.jsonl", b"[" * 100_000, r"a\.jsonl line 1: "),
    ],
)
def test_a_damaged_file_is_refused_by_name_and_line(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=words) as caught:
        list(read_rows(tmp_path / name))
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.tsv", tmp_path):
        with pytest.raises(InputError, match=path.name):
            list(read_rows(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("你好,世界!", "你好，世界！"),
        ("你好, 世界.", "你好，世界。"),
        ("真的吗?", "真的吗？"),
        ("他说: 走", "他说：走"),
        ("他说：  走", "他说：走"),
        ("甲;乙", "甲；乙"),
        ("你好(世界)吗", "你好（世界）吗"),
        ("(世界)", "（世界）"),
        ("维基(wiki)", "维基(wiki)"),
        ("号码 3,500.5", "号码 3,500.5"),
        ("用 tx, 好", "用 tx, 好"),
        ("版本.txt", "版本.txt"),
        ("第3章", "第3章"),
        ("Hello, world.", "Hello, world."),
        ("已经，对了。 好", "已经，对了。好"),
        ("", ""),
    ],
)
def test_chinese_punctuation(text: str, expected: str) -> None:
    assert chinese_punctuation(text) == expected
    assert chinese_punctuation(expected) == expected


# -- examples ----------------------------------------------------------------------------------------------------------


def test_one_tsv_gives_both_directions(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(
        tsv([("Hi", "你好"), (" Bye. ", "再见."), ("Hi", "你好"), ("", "空"), ("empty", " ")])
    )
    path = str(tmp_path / "a.tsv")
    to_chinese = [("translate:zh", "Hi", "你好"), ("translate:zh", "Bye.", "再见。")]
    to_english = [("translate:en", "你好", "Hi"), ("translate:en", "再见。", "Bye.")]
    assert list(examples(Source(path, "translate:zh"))) == to_chinese
    assert list(examples(Source(path, "translate:en"))) == to_english
    both = list(examples(Source(path, "translate")))
    assert sorted(both) == sorted(to_chinese + to_english)
    assert list(examples(Source(path, "translate", limit=1))) == [to_chinese[0], to_english[0]]


def test_the_other_tasks(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"text": "long", "summary": "short"}\n')
    (tmp_path / "a.jsonl").write_text('{"question": "who?", "context": "Ann sings.", "answer": "Ann"}\n')
    assert list(examples(Source(str(tmp_path / "s.jsonl"), "summarize"))) == [("summarize", "long", "short")]
    assert list(examples(Source(str(tmp_path / "a.jsonl"), "answer"))) == [("answer", "who?\tAnn sings.", "Ann")]


@pytest.mark.parametrize("task", ["translate:fr", "translated", "sing", ""])
def test_an_unknown_task_is_refused(tmp_path: Path, task: str) -> None:
    (tmp_path / "a.tsv").write_text(tsv(ROWS))
    with pytest.raises(InputError, match="unknown task"):
        list(examples(Source(str(tmp_path / "a.tsv"), task)))


def test_a_missing_field_is_refused_by_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for row in ('{"text": "only"}', '{"text": "x", "summary": 3}', '{"text": "x", "summary": null}'):
        path.write_text('{"text": "x", "summary": "y"}\n' + row + "\n")
        with pytest.raises(InputError, match=r"a\.jsonl row 2: no text field 'summary'"):
            list(examples(Source(str(path), "summarize")))


def test_bare_variants(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("Go on!\t继续！\nNo mark\t没有\n...\t。\n" * 1 + "Really?!\t真的？\n")
    source = Source(str(tmp_path / "a.tsv"), "translate", bare_variants=1.0)
    added = [e for e in examples(source) if e[1][-1] not in ".!?。！？" and "No" not in e[1] and "没" not in e[1]]
    assert added == [
        ("translate:zh", "Go on", "继续"), ("translate:en", "继续", "Go on"),
        ("translate:zh", "Really", "真的"), ("translate:en", "真的", "Really"),
    ]  # fmt: skip
    one_way = list(examples(Source(str(tmp_path / "a.tsv"), "translate:en", bare_variants=1.0)))
    assert {task for task, _, _ in one_way} == {"translate:en"}
    assert ("translate:en", "继续", "Go on") in one_way


def test_case_variants(tmp_path: Path) -> None:
    rows = [(f"Words of Row {i}", f"第{i}行") for i in range(2000)]
    (tmp_path / "a.tsv").write_text(tsv(rows))
    source = Source(str(tmp_path / "a.tsv"), "translate", case_variants=0.25)
    found = list(examples(source))
    assert found == list(examples(source))
    own = {("translate:zh", en, zh) for en, zh in rows} | {("translate:en", zh, en) for en, zh in rows}
    assert own <= set(found)
    added = [e for e in found if e not in own]
    assert 420 < len(added) < 580  # 500 expected, standard deviation 19; "Words Of Row" is the title case
    english = {zh: en for en, zh in rows}
    assert all(task == "translate:zh" and s.lower() == english[t].lower() for task, s, t in added)
    assert {s == s.upper() for _, s, _ in added} == {s == s.lower() for _, s, _ in added} == {True, False}


# -- corpora -----------------------------------------------------------------------------------------------------------


def load(
    path: Path, tokenizer: Tokenizer, config: CheckpointConfig, max_length: int = 50, cache: Path | None = None,
    task: str = "translate", weight: float = 1.0,
) -> Corpus:  # fmt: skip
    return load_corpus(Source(str(path), task, weight), tokenizer, config.special, config.tasks, max_length, cache)


def texts(corpus: Corpus, tokenizer: Tokenizer) -> list[tuple[str, str, str]]:
    return [
        (
            corpus.task_names[corpus.task[i]],
            tokenizer.decode(corpus.src[corpus.src_at[i] : corpus.src_at[i + 1]].tolist()),
            tokenizer.decode(corpus.tgt[corpus.tgt_at[i] : corpus.tgt_at[i + 1]].tolist()),
        )
        for i in range(len(corpus))
    ]


def test_a_corpus_holds_the_examples(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(tsv(ROWS))
    corpus = load(path, tokenizer, config)
    assert texts(corpus, tokenizer) == list(examples(Source(str(path), "translate")))
    assert (corpus.src[corpus.src_at[1:] - 1] == config.special.eos).all()
    assert config.special.eos not in corpus.tgt


def test_long_and_lopsided_examples_are_left_out(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig
) -> None:
    path = tmp_path / "a.tsv"
    rows = [
        ("the cat", "猫"),
        (" ".join(["the"] * 10), "猫" * 10),
        (" ".join(["the"] * 9), "猫" * 9),
        ("the", "猫" * 9),
    ]
    path.write_text(tsv(rows))
    kept = {t for task, _, t in texts(load(path, tokenizer, config, 10), tokenizer) if task == "translate:zh"}
    assert kept == {"猫", "猫" * 9}  # ten pieces with the end; one of nine against two is within 3 · 2 + 4
    path.write_text(tsv([("the", "猫" * 9), ("the", "猫" * 10), ("the " * 10, "猫")]))
    kept = {t for task, _, t in texts(load(path, tokenizer, config), tokenizer) if task == "translate:zh"}
    assert kept == {"猫" * 9}


def test_a_summary_may_be_short(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps({"text": "the " * 40, "summary": "the"}) + "\n")
    assert len(load(path, tokenizer, config, task="summarize")) == 1


def test_a_prefix_of_the_source_counts_and_comes_first(tmp_path: Path, tokenizer: Tokenizer) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(tsv([("the cat", "猫")]))
    tasks = {"translate:zh": Task(src_prefix=(3, 4))}
    source, special = Source(str(path), "translate:zh"), SpecialIds(pad=0, eos=1, decoder_start=0)
    corpus = load_corpus(source, tokenizer, special, tasks, 5, None)
    assert corpus.src.tolist() == [3, 4, *tokenizer.encode("the cat"), 1]
    assert len(load_corpus(source, tokenizer, special, tasks, 4, None)) == 0


def test_the_cache_changes_nothing(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    path, cache = tmp_path / "a.tsv", tmp_path / "cache"
    path.write_text(tsv(ROWS))

    def same(a: Corpus, b: Corpus) -> bool:
        arrays = [(getattr(a, n), getattr(b, n)) for n in ("src", "src_at", "tgt", "tgt_at", "task")]
        return a.task_names == b.task_names and all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in arrays)

    fresh = load(path, tokenizer, config)
    assert same(fresh, load(path, tokenizer, config, cache=cache))
    (file,) = cache.iterdir()
    assert file.suffix == ".npz"
    with_weight = load(path, tokenizer, config, cache=cache, weight=3.0)
    assert same(fresh, with_weight) and with_weight.weight == 3.0
    assert len(load(path, tokenizer, config, 3, cache)) < len(fresh)  # another length, another cache
    assert len(list(cache.iterdir())) == 2
    path.write_text(tsv([(en, zh) for en, zh in reversed(ROWS)]))  # of the same size
    os.utime(path, (file.stat().st_mtime + 10,) * 2)
    assert texts(load(path, tokenizer, config, cache=cache), tokenizer)[0] == ("translate:zh", *ROWS[-1])


# -- batches -----------------------------------------------------------------------------------------------------------

SPECIAL = SpecialIds(pad=0, eos=1, decoder_start=2)
TASKS = {"a": Task(tgt_prefix=(3,)), "b": Task(tgt_prefix=(4, 5)), "c": Task()}


def corpus(n: int, first: int, seed: int = 0, weight: float = 1.0, longest: int = 12) -> Corpus:
    """Examples that can be told apart: the source of example i is i + `first` some times and the end."""
    rng = np.random.default_rng(seed)
    n_src, n_tgt = rng.integers(1, longest, n), rng.integers(0, longest, n)
    src = [p for i in range(n) for p in [first + i] * n_src[i] + [SPECIAL.eos]]
    tgt = [p for i in range(n) for p in [first + i] * n_tgt[i]]
    ends = np.cumsum([0, *(n_src + 1)]), np.cumsum([0, *n_tgt])
    task = rng.integers(0, 3, n).astype(np.uint8)
    return Corpus(np.array(src, np.uint16), ends[0], np.array(tgt, np.uint16), ends[1], task, list(TASKS), weight)


def stream(corpora: Sequence[Corpus], batch_tokens: int = 60, pool: int = 5, seed: int = 0) -> Batches:
    return Batches(corpora, SPECIAL, TASKS, batch_tokens, pool, seed)


def assert_equal(a: Batch, b: Batch) -> None:
    assert (a.src_mask is None) == (b.src_mask is None)
    for x, y in ((a.src, b.src), (a.src_mask, b.src_mask), (a.tgt_in, b.tgt_in), (a.labels, b.labels)):
        assert x is None or torch.equal(x, y)  # type: ignore[arg-type]
    assert a.n_tokens == b.n_tokens


def test_every_example_comes_once_a_pass() -> None:
    batches = stream([corpus(157, 10)])
    drawn: Counter[int] = Counter()
    for batch in batches:
        drawn.update(batch.src[:, 0].tolist())
        if batches.passes()[0] >= 3.5 and batches.next_in_pool == len(batches._plan):
            break
    # at the end of a pool what was drawn is what came
    assert sum(drawn.values()) == batches.drawn[0]
    assert set(drawn) == set(range(10, 167))
    whole = batches.drawn[0] // 157
    assert set(drawn.values()) <= {whole, whole + 1}


def test_rows_are_what_the_examples_say() -> None:
    c = corpus(80, 10)
    prefixes = [[3], [4, 5], [SPECIAL.decoder_start]]
    for batch in itertools.islice(stream([c]), 60):
        n_tokens = 0
        for r in range(len(batch.src)):
            i = int(batch.src[r, 0]) - 10
            src = c.src[c.src_at[i] : c.src_at[i + 1]].tolist()
            tgt = c.tgt[c.tgt_at[i] : c.tgt_at[i + 1]].tolist()
            prefix = prefixes[c.task[i]]
            n_tokens += len(src) + len(tgt) + 1
            assert batch.src[r].tolist() == src + [SPECIAL.pad] * (batch.src.shape[1] - len(src))
            padding = batch.tgt_in.shape[1] - len(prefix) - len(tgt)
            assert batch.tgt_in[r].tolist() == prefix + tgt + [SPECIAL.pad] * padding
            # Nothing is to be learnt inside the prefix; from its last piece on, the next piece.
            assert batch.labels[r].tolist() == [-100] * (len(prefix) - 1) + tgt + [SPECIAL.eos] + [-100] * padding
            mask = [True] * batch.src.shape[1] if batch.src_mask is None else batch.src_mask[r].tolist()
            assert mask == [k < len(src) for k in range(batch.src.shape[1])]
        assert batch.n_tokens == n_tokens
        assert batch.src.dtype == batch.tgt_in.dtype == batch.labels.dtype == torch.long


def test_batches_keep_to_the_budget() -> None:
    single = {name: Task(tgt_prefix=(3,)) for name in TASKS}
    batches = Batches([corpus(300, 10, longest=20)], SPECIAL, single, 100, 10)
    sizes = []
    for batch in itertools.islice(batches, 200):
        positions = len(batch.src) * (batch.src.shape[1] + batch.tgt_in.shape[1])
        assert positions <= 100 or len(batch.src) == 1
        sizes.append(positions)
    assert np.mean(sizes) > 60


def test_an_example_longer_than_the_budget_comes_alone() -> None:
    for batch in itertools.islice(stream([corpus(30, 10)], batch_tokens=1), 60):
        assert len(batch.src) == 1


def test_little_is_padding() -> None:
    batches = stream([corpus(3000, 10)], batch_tokens=400, pool=50)
    taken = list(itertools.islice(batches, 100))
    positions = sum(len(b.src) * (b.src.shape[1] + b.tgt_in.shape[1]) for b in taken)
    # Here the sides are of unrelated lengths; batches of random examples would be filled by half.
    assert sum(b.n_tokens for b in taken) / positions > 0.8


@pytest.mark.parametrize("after", [0, 1, 2, 6, 7, 8, 13, 30, 75])
def test_the_stream_goes_on_after_an_interruption(after: int) -> None:
    corpora = [corpus(57, 10), corpus(23, 100, seed=1, weight=2.5)]
    whole = stream(corpora)
    for _ in itertools.islice(whole, after):
        pass
    state = json.loads(json.dumps(whole.state()))  # plain values only
    again = stream(corpora)
    again.restore(state)
    assert again.state() == whole.state()
    for a, b in itertools.islice(zip(whole, again, strict=True), 40):
        assert_equal(a, b)
    assert again.state() == whole.state() and again.passes() == whole.passes()


def test_restoring_winds_a_stream_back() -> None:
    batches = stream([corpus(57, 10)])
    start = batches.state()
    first = list(itertools.islice(batches, 12))
    batches.restore(start)
    assert batches.state() == start
    for a, b in zip(first, itertools.islice(batches, 12), strict=True):
        assert_equal(a, b)


def test_the_seed_decides_the_order() -> None:
    def sources(seed: int) -> list[list[list[int]]]:
        return [b.src.tolist() for b in itertools.islice(stream([corpus(157, 10)], seed=seed), 10)]

    assert sources(1) == sources(1) != sources(2)


def test_a_pass_has_an_order_of_its_own() -> None:
    batches = stream([corpus(500, 10)], batch_tokens=60, pool=400)
    assert batches._order(0, 0).tolist() != batches._order(0, 1).tolist()
    assert batches._order(0, 0).tolist() != list(range(500))


def test_sources_are_drawn_by_weight() -> None:
    corpora = [corpus(200, 10, weight=1.0), corpus(50, 1000, weight=3.0), corpus(50, 2000, weight=0.0)]
    batches = stream(corpora, batch_tokens=200, pool=20)
    counts: Counter[int] = Counter()
    mixed = 0
    for batch in itertools.islice(batches, 400):
        kinds = [i // 1000 for i in batch.src[:, 0].tolist()]
        counts.update(kinds)
        mixed += len(set(kinds)) == 2
    total = counts[0] + counts[1]
    assert total > 3000 and counts[2] == 0
    assert abs(counts[1] / total - 0.75) < 0.04  # four standard deviations are 0.032
    assert mixed > 200  # a batch does not hold one source only
    assert batches.passes()[1] > 10 * batches.passes()[0]


def test_no_examples_is_an_error() -> None:
    for corpora in ([], [corpus(0, 10)], [corpus(5, 10, weight=0.0)]):
        with pytest.raises(InputError, match="no training examples"):
            stream(corpora)


def test_a_state_of_other_sources_is_refused() -> None:
    state: Mapping[str, object] = stream([corpus(5, 10), corpus(5, 20)]).state()
    with pytest.raises(ConfigError, match="2 sources, the recipe 1"):
        stream([corpus(5, 10)]).restore(state)
