"""The training loop: it learns, goes on after an interruption as if there had been none, and what it exports translates."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tx.model.checkpoint import load_checkpoint, load_transformer
from tx.model.config import POINTING_HEAD, CheckpointConfig, Task
from tx.model.errors import CheckpointError, InputError
from tx.model.generation import generate
from tx.model.tokenizer import Tokenizer
from tx.model.torch_engine import TorchStepper
from tx.model.train import loop
from tx.model.train.architecture import checkpoint_config
from tx.model.train.data import Batch, Source
from tx.model.train.loop import Trainer, dev_name
from tx.model.train.recipe import Recipe

CHARACTERS = "猫狗鸟棵树红蓝老小河吃跑我们你好世界看见房子回家"

NewTrainer = Callable[..., Trainer]


def random_rows(n: int, seed: int, longest: int = 6) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(CHARACTERS, k=rng.randint(2, longest))) for _ in range(n)]


def copies(path: Path, rows: list[str]) -> Path:
    path.write_text("".join(f"{row}\t{row}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def new_trainer(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> NewTrainer:
    """Trainers on one small file; arguments change the recipe."""
    path = copies(tmp_path / "rows.tsv", random_rows(100, seed=1))
    dev = copies(tmp_path / "held.out.tsv", random_rows(4, seed=2))

    def new(out: str, init: dict[str, Tensor] | None = None, **changes: Any) -> Trainer:
        recipe = Recipe(
            sources=(Source(str(path), "translate"),), dev=(Source(str(dev), "translate:zh"),), steps=12,
            batch_tokens=100, warmup=4, decay=4, negatives=30, log_every=1, dev_every=5, ema=0.9,
        )  # fmt: skip
        return Trainer(replace(recipe, **changes), config, tokenizer, tmp_path / out, init=init)

    return new


def log_of(trainer: Trainer) -> list[dict[str, Any]]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    lines = (trainer.out / "log.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


@pytest.mark.parametrize(
    ("path", "name"),
    [("dev/translate.everyday.tsv", "everyday"), ("everyday.jsonl.gz", "everyday"), ("a/b", "b"), (".tsv", "")],
)
def test_dev_sets_have_short_names(path: str, name: str) -> None:
    assert dev_name(path) == name


# -- learning ----------------------------------------------------------------------------------------------------------


def test_it_learns_to_copy_from_nothing(tmp_path: Path, tokenizer: Tokenizer, config: CheckpointConfig) -> None:
    held_out = random_rows(50, seed=0)
    rows = [row for row in random_rows(6000, seed=1) if row not in held_out]
    path = copies(tmp_path / "rows.tsv", rows)
    recipe = Recipe(
        (Source(str(path), "translate:zh"),), steps=350, batch_tokens=400, lr=4e-3, warmup=40, decay=175,
        label_smoothing=0.0, ema=0.98, log_every=50,
    )  # fmt: skip
    trainer = Trainer(recipe, config, tokenizer, tmp_path / "run")
    before = trainer.translate(held_out, "translate:zh")
    assert sum(a == b for a, b in zip(before, held_out, strict=True)) == 0
    trainer.run()
    with trainer.averaged():
        after = trainer.translate(held_out, "translate:zh")
    assert sum(a == b for a, b in zip(after, held_out, strict=True)) >= 48
    log = log_of(trainer)
    assert [line["step"] for line in log] == list(range(50, 351, 50))
    assert log[-1]["nll"] < 0.1 < log[0]["nll"]


def test_the_log_tells_what_the_loss_is(new_trainer: NewTrainer) -> None:
    """nll is a mean over the target pieces since the last line, measured before each step's update."""
    trainer = new_trainer("a", negatives=0, dev=())
    twin = new_trainer("b", negatives=0, dev=())
    trainer.run()
    stream = iter(twin.batches)
    for line in log_of(trainer):
        batch = next(stream)
        loss, nll, n = twin.loss(batch)
        assert n == int((batch.labels != -100).sum())
        logits, _ = twin.model(batch.src, batch.src_mask, batch.tgt_in)
        plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="sum")
        assert float(nll) == pytest.approx(plain.item(), rel=0.02)
        if line["step"] == 1:
            assert line["nll"] == pytest.approx(plain.item() / n, rel=0.02)
            assert line["tokens"] == batch.n_tokens and line["lr"] == twin.recipe.lr_at(0)
    assert log_of(trainer)[-1]["nll"] < log_of(trainer)[0]["nll"]


def test_bfloat16_trains_like_float32(new_trainer: NewTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where matrix units make bf16 the faster type, weights stay fp32 and the losses stay close."""
    exact = new_trainer("fp32", lr=1e-3)
    exact.run(8)
    monkeypatch.setattr(loop, "precision", lambda device: torch.bfloat16)
    rounded = new_trainer("bf16", lr=1e-3)
    rounded.run(8)
    assert all(p.dtype == torch.float32 for p in rounded.model.parameters())
    pairs = list(zip(log_of(exact), log_of(rounded), strict=True))
    losses = [(one["nll"], other["nll"]) for one, other in pairs if "nll" in one]
    assert len(losses) == 8
    assert all(one == pytest.approx(other, rel=0.02) for one, other in losses)
    assert losses[-1][0] != losses[-1][1]  # it did compute in another precision


def test_t5_scaled_logits_are_scaled_in_training_too(new_trainer: NewTrainer) -> None:
    trainer = new_trainer("a", negatives=0)
    trainer.config = replace(trainer.config, model=replace(trainer.config.model, scale_logits=True))
    trainer.model.config = trainer.config.model
    batch = next(iter(trainer.batches))
    logits, _ = trainer.model(batch.src, batch.src_mask, batch.tgt_in)
    plain = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="sum")
    assert float(trainer.loss(batch)[1]) == pytest.approx(plain.item(), rel=0.01)


def test_the_log_tells_tasks_apart(new_trainer: NewTrainer, tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(json.dumps({"text": "the cat sees a bird", "summary": "the cat"}) + "\n")
    (tmp_path / "q.jsonl").write_text(json.dumps({"context": "the cat", "question": "a", "answer": "cat"}) + "\n")
    tasks = {"nll_summarize": "summarize", "nll_answer": "answer", "nll_generate": "answer:generate"}
    sources = [Source(str(tmp_path / f"{'s' if t == 'summarize' else 'q'}.jsonl"), t) for t in tasks.values()]
    one = new_trainer("a", sources=(*sources, Source(str(tmp_path / "rows.tsv"), "translate")), dev=(), steps=60)
    one.run()
    lines = log_of(one)
    seen = set()
    for line in lines:  # one batch each, which is of one task
        told = {name for name in ("nll", *tasks) if line.get(name) is not None}
        assert len(told) == 1
        seen |= told
    assert seen == {"nll", *tasks}


# -- resuming ----------------------------------------------------------------------------------------------------------


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Where two nested states differ by so much as a bit."""
    if isinstance(a, Tensor):
        same = isinstance(b, Tensor) and a.dtype == b.dtype and torch.equal(a, b)
        return [] if same else [where]
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return [where]
        return [d for k in a for d in differences(a[k], b[k], f"{where}.{k}")]
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return [where]
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{where}[{i}]")]
    return [] if a == b else [where]


def state_of(trainer: Trainer) -> dict[str, Any]:
    """All of `last.pt` but the time it took."""
    state: dict[str, Any] = torch.load(trainer.out / "last.pt", weights_only=True)
    del state["seconds"]
    return state


def test_guided_alignment_turns_the_copying_head_to_what_is_translated(
    new_trainer: NewTrainer, tmp_path: Path, tokenizer: Tokenizer
) -> None:
    """In a language that has another character for each of the source's, in the same order, piece t translates piece t."""
    other = str.maketrans(CHARACTERS, CHARACTERS[7:] + CHARACTERS[:7])
    path = tmp_path / "cipher.tsv"
    path.write_text("".join(f"{row}\t{row.translate(other)}\n" for row in random_rows(300, seed=1)), encoding="utf-8")

    def on_the_diagonal(weight: float) -> float:
        sources = (Source(str(path), "translate:zh"),)
        trainer = new_trainer(f"weight-{weight}", sources=sources, alignment=weight, steps=60, lr=3e-3, dev=())
        trainer.run()
        src = [tokenizer.encode(row) for row in random_rows(10, seed=3)]
        tgt = [tokenizer.encode(row.translate(other)) for row in random_rows(10, seed=3)]
        config = trainer.config
        fed = [[*config.tasks["translate:zh"].tgt_prefix, *ids] for ids in tgt]
        stepper = TorchStepper(trainer.model.eval(), config.special.pad)
        maps = stepper.cross_attention([[*ids, config.special.eos] for ids in src], fed)
        shares = [
            float(weights[-1, POINTING_HEAD, t, t])
            for weights, ids in zip(maps, src, strict=True)
            for t in range(len(ids))
        ]
        return sum(shares) / len(shares)

    assert on_the_diagonal(1.0) > on_the_diagonal(0.0) + 0.2


@pytest.mark.parametrize("stop", [5, 6, 11])
def test_an_interrupted_run_ends_as_an_uninterrupted_one(new_trainer: NewTrainer, stop: int) -> None:
    straight = new_trainer("straight")
    assert not straight.resume()
    straight.run()
    first = new_trainer("stopped")
    first.run(until=stop)
    assert first.step == stop
    torch.manual_seed(99)  # whatever the process did in between
    second = new_trainer("stopped")
    assert second.resume() and second.step == stop
    second.run()

    def told(trainer: Trainer) -> dict[int, tuple[float, float, int]]:
        return {e["step"]: (e["nll"], e["norm"], e["tokens"]) for e in log_of(trainer) if "nll" in e}

    assert list(told(straight)) == list(range(1, 13))
    assert told(second) == told(straight)
    assert log_of(second)[-1]["dev"] == log_of(straight)[-1]["dev"]
    assert differences(state_of(second), state_of(straight)) == []
    assert differences(dict(second.model.state_dict()), dict(straight.model.state_dict())) == []


def test_a_run_differs_by_its_seed(new_trainer: NewTrainer) -> None:
    runs = [new_trainer(f"{seed}", seed=seed, steps=2, dev=()) for seed in (1, 2)]
    for trainer in runs:
        trainer.run()
    assert differences(state_of(runs[0])["model"], state_of(runs[1])["model"])


def test_a_finished_run_stays_as_it_is(new_trainer: NewTrainer) -> None:
    new_trainer("a").run()
    again = new_trainer("a")
    again.resume()
    before = state_of(again)
    n_lines = len(log_of(again))
    again.run()
    again.run(until=0)
    assert again.step == 12 and len(log_of(again)) == n_lines
    assert differences(before, state_of(again)) == []


def test_a_damaged_or_foreign_state_is_refused(new_trainer: NewTrainer, tmp_path: Path, tokenizer: Tokenizer) -> None:
    trainer = new_trainer("a", dev=(), steps=1)
    trainer.run()
    path = trainer.out / "last.pt"
    whole = path.read_bytes()
    for content in (b"", b"not a state", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"last\.pt cannot be read") as caught:
            new_trainer("a").resume()
        assert "\n" not in str(caught.value)
    path.write_bytes(whole)
    other = Trainer(
        trainer.recipe, checkpoint_config(tokenizer, "other", d_model=32, n_encoder_layers=1), tokenizer, trainer.out
    )
    with pytest.raises(CheckpointError, match=r"last\.pt does not fit"):
        other.resume()


def test_starting_weights_are_taken_or_refused(new_trainer: NewTrainer) -> None:
    given = {name: value + 1 for name, value in new_trainer("a").model.state_dict().items()}
    assert differences(dict(new_trainer("b", init=given).model.state_dict()), given) == []
    del given["logits_bias"]
    with pytest.raises(CheckpointError, match="missing: logits_bias"):
        new_trainer("c", init=given)


# -- single steps ------------------------------------------------------------------------------------------------------


def test_a_step_with_a_gradient_that_is_not_finite_is_left_out(new_trainer: NewTrainer) -> None:
    trainer = new_trainer("a", steps=3, log_every=1, dev=())
    exact = trainer.loss
    states: list[dict[str, Tensor]] = []

    def loss(batch: Batch) -> tuple[Tensor, Tensor, int]:
        states.append({name: value.clone() for name, value in trainer.model.state_dict().items()})
        total, nll, n = exact(batch)
        broken = len(states) == 2
        return (total * torch.inf if broken else total), (nll * torch.nan if broken else nll), n

    trainer.loss = loss  # type: ignore[method-assign]
    trainer.run()
    assert differences(states[0], states[1])
    assert differences(states[1], states[2]) == []
    assert differences(states[2], dict(trainer.model.state_dict()))
    assert all(bool(value.isfinite().all()) for value in trainer.model.state_dict().values())
    first, second, third = log_of(trainer)
    assert second["nll"] is None and second["norm"] is None and second["skipped"] == 1
    assert "skipped" not in first and "skipped" not in third and third["nll"] > 0


def test_the_average_follows_the_weights(new_trainer: NewTrainer) -> None:
    """Every fourth step by the decay of four: min(0.9, (1 + t)/(10 + t))⁴."""
    trainer = new_trainer("a", steps=4, dev=())
    start = trainer.average["encoder.layers.0.ffn.w_1.weight"].clone()
    trainer.run(until=3)
    assert torch.equal(trainer.average["encoder.layers.0.ffn.w_1.weight"], start)
    trainer.run()
    decay = (5 / 14) ** 4
    own = dict(trainer.model.named_parameters())["encoder.layers.0.ffn.w_1.weight"].detach()
    assert not torch.equal(own, start)
    torch.testing.assert_close(trainer.average["encoder.layers.0.ffn.w_1.weight"], decay * start + (1 - decay) * own)


def test_averaged_gives_the_own_weights_back(new_trainer: NewTrainer) -> None:
    trainer = new_trainer("a", dev=())
    trainer.run()
    own = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    with trainer.averaged():
        assert differences(dict(trainer.model.state_dict()), trainer.average) == []
        assert not trainer.model.training
    assert differences(dict(trainer.model.state_dict()), own) == []
    assert differences(own, trainer.average)
    assert trainer.model.training


def test_dev_sets_are_measured(new_trainer: NewTrainer) -> None:
    trainer = new_trainer("a")
    trainer.run()
    measured = [line for line in log_of(trainer) if "dev" in line]
    assert [line["step"] for line in measured] == [5, 10, 12]
    assert set(measured[0]["dev"]) == {f"out.en-zh.{what}" for what in ("bleu", "chrf", "first")}


def test_a_perfect_dev_set_scores_100(new_trainer: NewTrainer) -> None:
    trainer = new_trainer("a")
    trainer.translate = lambda texts, *_, **__: list(texts)  # type: ignore[assignment]
    scores = trainer.measure()
    assert scores["out.en-zh.bleu"] == scores["out.en-zh.chrf"] == 100


def test_a_dev_set_that_cannot_be_used_is_refused_at_once(new_trainer: NewTrainer, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "half.jsonl").write_text('{"en": "one"}\n')
    for name, words in (("empty.tsv", "is empty"), ("half.jsonl", "row 1"), ("none.tsv", "No such file")):
        with pytest.raises(InputError, match=words):
            new_trainer("a", dev=(Source(str(tmp_path / name), "translate"),))


def test_a_source_prefix_is_fed_in_measuring(new_trainer: NewTrainer, tokenizer: Tokenizer) -> None:
    trainer = new_trainer("a")
    trainer.config = replace(trainer.config, tasks={"t": Task(src_prefix=(5,), tgt_prefix=(6,))})
    seen: list[list[int]] = []
    encode = trainer.model.encode
    trainer.model.encode = lambda src, *others: (seen.extend(src.tolist()), encode(src, *others))[1]  # type: ignore
    trainer.translate(["猫"], "t")
    assert seen == [[5, *tokenizer.encode("猫"), trainer.config.special.eos]]


# -- export ------------------------------------------------------------------------------------------------------------


def test_an_exported_checkpoint_translates_alike(new_trainer: NewTrainer, tmp_path: Path, tokenizer: Tokenizer) -> None:
    trainer = new_trainer("a", steps=40, dev=(), lr=3e-3)
    trainer.run()
    trainer.export(tmp_path / "model", "# A card\n")
    rows = random_rows(10, seed=3)
    with trainer.averaged():
        expected = trainer.translate(rows, "translate:zh")
    checkpoint = load_checkpoint(tmp_path / "model")
    model = load_transformer(checkpoint)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, trainer.average[name].half().float(), rtol=0, atol=0)
    special, task = checkpoint.config.special, checkpoint.config.tasks["translate:zh"]
    src = [[*checkpoint.tokenizer.encode(row), special.eos] for row in rows]
    settings = replace(checkpoint.config.generation, beam_size=1)
    found = generate(TorchStepper(model, special.pad), src, config=settings, special=special, prefix=task.tgt_prefix)
    assert [checkpoint.tokenizer.decode(hypotheses[0].ids) for hypotheses in found] == expected
    assert len(set(expected)) > 1
    assert (tmp_path / "model" / "README.md").read_text() == "# A card\n"
    assert checkpoint.tokenizer.to_json() == tokenizer.to_json()
