"""Answers as training examples: targets are places, or the pieces that stand there, which stay right through windows,
batches and interruptions."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tx.model import answering, spans
from tx.model.config import CheckpointConfig
from tx.model.errors import InputError
from tx.model.span_generation import search_spans
from tx.model.tokenizer import Tokenizer
from tx.model.torch_engine import TorchStepper
from tx.model.train.answers import best_answers, pointed_spans
from tx.model.train.data import MAX_PLACES, Batches, Corpus, Source, load_corpus
from tx.model.train.loop import Trainer, dev_rows
from tx.model.train.loss import pointing_loss
from tx.model.train.recipe import Recipe

ROWS = [
    {"context": "the cat sees a red bird now", "question": "the cat sees", "answer": "red bird"},
    {"context": "the cat sees a red bird now", "question": "the dog eats", "answer": ""},
    {"context": "看见猫我们回家猫", "question": "猫", "answer": "猫"},
    {"context": "the sun", "question": "a moon", "answer": "moon"},  # does not stand there: left out
    {"context": "", "question": "a moon", "answer": ""},  # no text: left out
]


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def load(
    path: Path, tokenizer: Tokenizer, config: CheckpointConfig, cache: Path | None = None, task: str = "answer",
    **settings: Any,
) -> Corpus:  # fmt: skip
    return load_corpus(Source(str(path), task, **settings), tokenizer, config.special, config.tasks, 60, cache)


def example(corpus: Corpus, i: int) -> tuple[list[int], list[int], list[list[int]]]:
    """Its source, the kinds of the pieces, and the places of the answer (of a corpus whose targets are places)."""
    assert corpus.kinds is not None
    own = slice(corpus.src_at[i], corpus.src_at[i + 1])
    places = corpus.tgt[corpus.tgt_at[i] : corpus.tgt_at[i + 1]].reshape(-1, 2).tolist()
    return corpus.src[own].tolist(), corpus.kinds[own].tolist(), places


def test_targets_are_the_places_of_the_answers(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    corpus = load(write(tmp_path / "a.jsonl", ROWS), tokenizer, config)
    assert len(corpus) == 3 and {corpus.task_names[t] for t in corpus.task} == {"answer"}
    src, kinds, places = example(corpus, 0)
    separator = tokenizer.encode("\t")[0]
    reader = spans.Reader(tokenizer, config.tasks["answer"].src_prefix, config.special.eos)
    expected = reader.source(reader.question(ROWS[0]["question"], 20), reader.text(ROWS[0]["context"]))
    assert src == expected.ids and kinds == expected.kinds.tolist()
    assert [tokenizer.decode(src[a : b + 1]) for a, b in places] == ["red bird"]
    src, _, places = example(corpus, 1)
    assert places == [[len(src) - 1] * 2] and src[-1] == config.special.eos
    src, _, places = example(corpus, 2)
    assert [tokenizer.decode(src[a : b + 1]) for a, b in places] == ["猫", "猫"]
    assert min(map(min, places)) > src.index(separator)  # not in the question


def test_windows_hold_the_answer_anywhere(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    """Each place in the window occurs, for answers at the beginning, inside and at the end of a text."""
    rows = []
    for n in range(120):
        words = ["the"] * 40
        words[(0, 20, 37)[n % 3]] = "bird"
        rows.append({"context": " ".join(words), "question": "a cat", "answer": "bird"})
    corpus = load(write(tmp_path / "a.jsonl", rows), tokenizer, config, window=10)
    assert len(corpus) == 120
    seen: list[set[int]] = [set(), set(), set()]
    for i in range(120):
        src, kinds, places = example(corpus, i)
        first = len(src) - 1 - 10
        assert tokenizer.decode(src[:first]).startswith("a cat\t"[:5])
        ((a, b),) = places
        assert a == b and tokenizer.decode([src[a]]) == "bird" and first <= a < len(src) - 1
        assert all(kinds[first:-1]) and not any(kinds[:first])
        seen[i % 3].add(a - first)
    assert seen[0] == {0}
    assert len(seen[1]) == 10
    assert seen[2] == {7, 8, 9}


def test_what_does_not_fit_is_left_out(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    long = " ".join(["the"] * 30)
    path = write(tmp_path / "a.jsonl", [{"context": f"{long} cat", "question": "a", "answer": long}])
    assert len(load(path, tokenizer, config, window=20)) == 0
    assert len(load(path, tokenizer, config, window=40)) == 1
    path = write(tmp_path / "b.jsonl", [{"context": "猫" + "狗猫" * 12, "question": "a", "answer": "猫"}])
    assert len(example(load(path, tokenizer, config), 0)[2]) == MAX_PLACES
    # A question takes a third of the room at most.
    path = write(tmp_path / "c.jsonl", [{"context": "the cat", "question": "red " * 90, "answer": "cat"}])
    src, _, ((a, _),) = example(load(path, tokenizer, config), 0)
    assert len(src) <= 60 and tokenizer.decode([src[a]]) == "cat"


def test_a_text_without_answer_is_cut_to_a_window(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig
) -> None:
    rows = [{"context": "the cat " * 30, "question": "a", "answer": ""}] * 5
    corpus = load(write(tmp_path / "a.jsonl", rows), tokenizer, config, window=12)
    for i in range(5):
        src, _, places = example(corpus, i)
        assert places == [[len(src) - 1] * 2] and len(src) == 1 + 1 + 1 + 12 + 1


def test_the_cache_keeps_the_kinds_and_the_way(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    path, cache = write(tmp_path / "a.jsonl", ROWS), tmp_path / "cache"
    for n, task in enumerate(("answer", "answer:generate"), start=1):
        fresh, again = (load(path, tokenizer, config, cache, task) for _ in range(2))
        assert fresh.group == again.group == task
        assert fresh.kinds is not None and np.array_equal(fresh.kinds, again.kinds)  # type: ignore[arg-type]
        assert np.array_equal(fresh.src, again.src) and np.array_equal(fresh.tgt, again.tgt)
        assert len(list(cache.iterdir())) == n


def test_generated_targets_are_the_pieces_at_the_first_place(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig
) -> None:
    """In the same windows as those of the answers that are pointed at."""
    rows = [*ROWS, *({"context": "a " * n + "cat the bird " * 20, "question": "a", "answer": "cat"} for n in range(20))]
    path = write(tmp_path / "a.jsonl", rows)
    settings = {"window": 6, "elsewhere": 0.5}
    pointed, generated = (load(path, tokenizer, config, task=t, **settings) for t in ("answer", "answer:generate"))
    assert len(pointed) == len(generated) == 23 and np.array_equal(pointed.src, generated.src)
    lengths = set()
    for i in range(23):
        src, _, ((a, b), *_) = example(pointed, i)
        target = generated.tgt[generated.tgt_at[i] : generated.tgt_at[i + 1]].tolist()
        assert target == ([] if src[a] == config.special.eos else src[a : b + 1])
        lengths.add(len(target))
    assert lengths == {0, 1, 2}


@pytest.mark.parametrize("row", [{"context": "a", "question": "b"}, {"context": "a", "question": 3, "answer": "a"}])
def test_a_missing_field_is_refused_by_row(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig, row: dict[str, Any]
) -> None:
    path = write(tmp_path / "a.jsonl", [ROWS[0], row])
    with pytest.raises(InputError, match=r"a\.jsonl row 2: no text field '(answer|question)' for task answer"):
        load(path, tokenizer, config)
    with pytest.raises(InputError, match=r"a\.jsonl row 2: expected the text fields context, question, answer"):
        dev_rows(path, 9, "answer")


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def corpora(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> list[Corpus]:
    rows = [
        {
            "context": "the " * (n % 7) + "red bird " + "a " * (n % 5),
            "question": "the cat",
            "answer": "bird" * (n % 4 > 0),
        }
        for n in range(40)
    ]
    pairs = tmp_path / "a.tsv"
    pairs.write_text("".join(f"the{' cat' * (n % 6)}\t猫{'狗' * n}\n" for n in range(8)), encoding="utf-8")
    texts = load_corpus(Source(str(pairs), "translate"), tokenizer, config.special, config.tasks, 60, None)
    path = write(tmp_path / "a.jsonl", rows)
    return [load(path, tokenizer, config), texts, load(path, tokenizer, config, task="answer:generate")]


def stream(corpora: list[Corpus], config: CheckpointConfig) -> Batches:
    return Batches(corpora, config.special, config.tasks, 120, 6, 0)


def test_batches_never_mix_kinds(corpora: list[Corpus], config: CheckpointConfig) -> None:
    known = [example(corpora[0], i) for i in range(len(corpora[0]))]
    targets = [corpora[2].tgt[a:b].tolist() for a, b in itertools.pairwise(corpora[2].tgt_at)]
    written = [(src, kinds, target) for (src, kinds, _), target in zip(known, targets, strict=True)]
    separate = {"answer": 0, "answer:generate": 0, "translate": 0}
    for batch in itertools.islice(stream(corpora, config), 120):
        separate[batch.group] += 1
        answers = (batch.src[:, 0] == config.tasks["answer"].src_prefix[0]).tolist()
        assert set(answers) == {batch.group != "translate"} == {batch.kinds is not None}
        assert (batch.places is not None) == (batch.group == "answer")
        if batch.places is None or batch.kinds is None:
            assert len(batch.labels) == len(batch.src)
            for r in range(len(batch.src) if batch.kinds is not None else 0):
                length = batch.src.shape[1] if batch.src_mask is None else int(batch.src_mask[r].sum())
                labels = [piece for piece in batch.labels[r].tolist() if piece != -100]
                assert batch.kinds is not None and labels[-1] == config.special.eos
                row = (batch.src[r, :length].tolist(), batch.kinds[r, :length].tolist(), labels[:-1])
                assert row in written and not batch.kinds[r, length:].any()
                fed = [*config.tasks["answer"].tgt_prefix, *labels[:-1]]
                assert batch.tgt_in[r, : len(fed)].tolist() == fed
            continue
        fed = [*config.tasks["answer"].tgt_prefix, config.special.eos]
        assert batch.tgt_in.tolist() == [fed] * len(batch.src) and batch.labels.numel() == 0
        total = 0
        for r in range(len(batch.src)):
            length = batch.src.shape[1] if batch.src_mask is None else int(batch.src_mask[r].sum())
            total += length + 2
            places = [pair for pair in batch.places[r].tolist() if pair != [-1, -1]]
            assert (batch.src[r, :length].tolist(), batch.kinds[r, :length].tolist(), places) in known
            assert not batch.kinds[r, length:].any() and (batch.src[r, length:] == config.special.pad).all()
        assert batch.n_tokens == total
        assert len(batch.src) * (batch.src.shape[1] + 2) <= 120
    assert min(separate.values()) > 10


@pytest.mark.parametrize("after", [1, 7, 23])
def test_the_stream_goes_on_after_an_interruption(corpora: list[Corpus], config: CheckpointConfig, after: int) -> None:
    whole, again = stream(corpora, config), stream(corpora, config)
    for _ in itertools.islice(whole, after):
        pass
    again.restore(json.loads(json.dumps(whole.state())))
    for a, b in itertools.islice(zip(whole, again, strict=True), 20):
        assert a.group == b.group
        assert torch.equal(a.src, b.src) and torch.equal(a.tgt_in, b.tgt_in) and torch.equal(a.labels, b.labels)
        assert (a.places is None) == (b.places is None)
        assert (a.kinds is None) == (b.kinds is None)
        if a.places is not None and b.places is not None:
            assert torch.equal(a.places, b.places)
        if a.kinds is not None and b.kinds is not None:
            assert torch.equal(a.kinds, b.kinds)


# -- the loss ----------------------------------------------------------------------------------------------------------


def test_the_pointing_loss_by_hand() -> None:
    weights = torch.tensor(
        [[[0.5, 0.2, 0.2, 0.1], [0.1, 0.6, 0.0, 0.3]], [[0.25, 0.25, 0.25, 0.25], [0.7, 0.1, 0.1, 0.1]]]
    )
    places = torch.tensor([[[0, 1], [2, 3], [-1, -1]], [[3, 3], [-1, -1], [-1, -1]]])
    # Sentence 0: starts at 0 or 2, ends at 1 or 3; sentence 1: its end piece twice.
    expected = -math.log(0.5 + 0.2) - math.log(0.6 + 0.3) - math.log(0.25) - math.log(0.1)
    assert float(pointing_loss(weights, places)) == pytest.approx(expected)
    wrong = torch.tensor([[[0, 2]], [[0, 0]]])  # an end that has no weight at all
    assert float(pointing_loss(weights, wrong)) == pytest.approx(
        -math.log(0.5) - math.log(1e-12) - math.log(0.25) - math.log(0.7)
    )


def test_the_gradient_of_the_pointing_loss() -> None:
    scores = torch.randn(2, 2, 5, generator=torch.Generator().manual_seed(0), requires_grad=True)
    places = torch.tensor([[[1, 2], [-1, -1]], [[0, 4], [3, 3]]])
    weights = scores.softmax(-1)
    pointing_loss(weights, places).backward()  # type: ignore[no-untyped-call]
    right = torch.zeros(2, 2, 5)
    right[0, 0, 1] = right[0, 1, 2] = right[1, 0, 0] = right[1, 0, 3] = right[1, 1, 4] = right[1, 1, 3] = 1
    share = (weights * right / (weights * right).sum(-1, keepdim=True)).detach()
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, (weights - share).detach(), rtol=1e-4, atol=1e-6)


# -- the loop ----------------------------------------------------------------------------------------------------------


def trainer(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig, out: str, task: str = "answer", **changes: Any
) -> Trainer:
    rng = np.random.default_rng(1)
    words = ["cat", "dog", "bird", "tree", "house", "river", "sun", "moon"]
    rows = []
    for _ in range(300):
        a, b, c = rng.permutation(words)[:3]
        rows.append({"context": f"the red {a} sees the blue {b} the old {c}", "question": "red", "answer": str(a)})
        rows.append({"context": f"the red {a} sees the blue {b} the old {c}", "question": "blue", "answer": str(b)})
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("the cat\t猫\nthe dog\t狗\na bird\t鸟\n", encoding="utf-8")
    answers = write(tmp_path / "train.jsonl", rows)
    recipe = Recipe(
        sources=(Source(str(answers), task, 4.0), Source(str(pairs), "translate", 1.0)),
        dev=(Source(str(write(tmp_path / "dev.jsonl", rows[:20])), task),), steps=16, batch_tokens=200, warmup=4,
        decay=4, log_every=4, dev_every=100, ema=0.9,
    )  # fmt: skip
    return Trainer(replace(recipe, **changes), config, tokenizer, tmp_path / out)


def test_it_learns_to_point(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    one = trainer(tmp_path, tokenizer, config, "run", steps=160, lr=4e-3, warmup=20, decay=60, log_every=40, ema=0.95)
    before = one.measure_answers(one.dev[0][2])
    one.run()
    log = [json.loads(line) for line in (one.out / "log.jsonl").read_text().splitlines()]
    lines = [line for line in log if "nll" in line]
    assert [set(line) >= {"nll", "nll_answer"} for line in lines] == [True] * 4
    assert lines[-1]["nll_answer"] < 0.5 * lines[0]["nll_answer"]
    scores = log[-1]["dev"]
    assert scores["dev.em"] > 80 and scores["dev.f1"] >= scores["dev.em"] and scores["dev.em"] > float(before["em"])


def test_it_learns_to_write_the_span(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    """A few examples by heart, one of them without an answer."""
    rows = [
        {"context": "the red cat sees the blue dog", "question": "red", "answer": "cat"},
        {"context": "the red cat sees the blue dog", "question": "blue", "answer": "blue dog"},
        {"context": "the old house we go home", "question": "old", "answer": "the old house"},
        {"context": "the old house we go home", "question": "moon", "answer": ""},
    ]
    path = write(tmp_path / "few.jsonl", rows)
    one = trainer(
        tmp_path, tokenizer, config, "run", "answer:generate", steps=80, lr=2e-3, warmup=15, decay=50, log_every=40,
        ema=0.9, batch_tokens=60, label_smoothing=0.0, sources=(Source(str(path), "answer:generate"),), dev_every=100,
        dev=(Source(str(write(tmp_path / "three.jsonl", rows[:3])), "answer:generate"),),
    )  # fmt: skip
    one.run()
    log = [json.loads(line) for line in (one.out / "log.jsonl").read_text().splitlines()]
    lines = [line for line in log if "nll" in line]
    assert [line["nll"] for line in lines] == [None, None]  # nothing is translated
    assert lines[1]["nll_generate"] < min(0.5, lines[0]["nll_generate"])
    assert log[-1]["dev"] == {"three.generate.em": 100, "three.generate.f1": 100, "three.generate.first": "cat"}
    reader = spans.Reader(tokenizer, config.tasks["answer"].src_prefix, config.special.eos)
    sources = [reader.source(reader.question(row["question"], 20), reader.text(row["context"])) for row in rows]
    with one.averaged():
        found = search_spans(TorchStepper(one.model, config.special.pad), config, sources, 2)
    for row, source, ((score, first, last), *_) in zip(rows, sources, found, strict=True):
        text = tokenizer.decode(source.ids[source.first + first : source.first + last + 1]).strip()
        assert (score > 0) == bool(row["answer"]) and (score < 0 or text == row["answer"])


@pytest.mark.parametrize("task", ["answer", "answer:generate"])
def test_the_best_of_all_windows_is_the_answer(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig, monkeypatch: pytest.MonkeyPatch, task: str
) -> None:
    """As `Answerer` reads them: a random model's spans of each window by hand, and the best of them."""
    monkeypatch.setattr(answering, "WINDOW", 4)
    monkeypatch.setattr(answering, "STRIDE", 3)
    recipe = Recipe(sources=(Source(str(write(tmp_path / "a.jsonl", ROWS)), "answer"),), batch_tokens=100)
    model = Trainer(recipe, config, tokenizer, tmp_path / "run").model.eval()
    stepper = TorchStepper(model, config.special.pad)
    rows = [
        {"context": "the red cat sees the blue dog go home", "question": "a moon"},
        {"context": "the sun", "question": "red"},
        {"context": "", "question": "red"},
    ]
    reader = spans.Reader(tokenizer, config.tasks["answer"].src_prefix, config.special.eos)
    expected = []
    for row in rows:
        text, best = reader.text(row["context"]), (-math.inf, "")
        for start in (0, 3, 6) if len(text.ids) > 4 else (0,):
            source = reader.source(reader.question(row["question"], 20), text, start, start + 4)
            if task == "answer":
                found = pointed_spans(stepper, config, [source])[0]
            else:
                found = search_spans(stepper, config, [source], 1)[0]
            for score, a, b in found:
                best = max(best, (score, row["context"][text.offsets[start + a][0] : text.offsets[start + b][1]]))
        expected.append(best[1].strip())
    assert best_answers(stepper, config, tokenizer, rows, task) == expected
    assert expected[0] and expected[1] and not expected[2]


@pytest.mark.parametrize("task", ["answer", "answer:generate"])
def test_it_goes_on_after_an_interruption(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig, task: str
) -> None:
    whole = trainer(tmp_path, tokenizer, config, "whole", task)
    whole.run()
    first = trainer(tmp_path, tokenizer, config, "parts", task)
    first.run(7)
    second = trainer(tmp_path, tokenizer, config, "parts", task)
    assert second.resume() and second.step == 7
    second.run()
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, second.model.state_dict()[name]), name


def test_weights_without_kinds_of_pieces_start_a_run(
    tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig
) -> None:
    recipe = Recipe(sources=(Source(str(write(tmp_path / "a.jsonl", ROWS)), "answer"),), steps=2, batch_tokens=100)
    weights = Trainer(recipe, config, tokenizer, tmp_path / "a").model.state_dict()
    kinds = "encoder.segment_embedding.weight"
    init = {name: tensor for name, tensor in weights.items() if name != kinds}
    started = Trainer(recipe, config, tokenizer, tmp_path / "b", init=init)
    assert kinds not in init  # the caller's stays as it was
    table = started.model.state_dict()[kinds]
    assert not table[0].any() and table[1:].std() > 0.5  # what has no kind is read as before
    assert torch.equal(started.model.state_dict()["src_embedding.weight"], weights["src_embedding.weight"])
