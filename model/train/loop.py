"""The training loop: optimiser, schedule, averaged weights, measuring on dev sets, and runs that can be resumed."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import pickle
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import evaluation
from ..checkpoint import check_tensors, one_line, save_checkpoint
from ..config import POINTING_HEAD, CheckpointConfig
from ..errors import CheckpointError, InputError
from ..generation import generate
from ..tokenizer import Tokenizer
from ..torch_engine import TorchStepper
from ..transformer import Transformer
from .answers import best_answers
from .architecture import COPY_BIAS, checkpoint_config, initialise
from .data import Batch, Batches, load_corpus, read_rows
from .guided import Aligner, alignment_loss
from .loss import cross_entropy, pointing_loss
from .recipe import Recipe

__all__ = ["Recipe", "Trainer", "checkpoint_config", "export_run", "precision"]


def precision(device: torch.device) -> torch.dtype:
    """The fastest safe type for matrix products: bfloat16 on CUDA and on CPUs with matrix units (AMX), else float32."""
    if device.type == "cuda":
        return torch.bfloat16
    with contextlib.suppress(OSError):
        if "amx_bf16" in Path("/proc/cpuinfo").read_text():
            return torch.bfloat16
    return torch.float32


class _Sums:
    """The nll since the last line of the log, by task: a mean over pieces of text, end pieces included, and for answers
    that are pointed at over questions (both ends of an answer together)."""

    NAMES = {
        "translate": "nll", "summarize": "nll_summarize", "answer": "nll_answer", "answer:generate": "nll_generate",
    }  # fmt: skip

    def __init__(self) -> None:
        self.sums = dict.fromkeys(self.NAMES.values(), (0.0, 0))

    def add(self, batch: Batch, nll: float, n: int) -> None:
        name = self.NAMES[batch.group]
        self.sums[name] = self.sums[name][0] + nll, self.sums[name][1] + n

    def means(self) -> dict[str, float | None]:
        return {k: round(total / n, 4) if n else None for k, (total, n) in self.sums.items() if n or k == "nll"}


class Trainer:
    """One run in a folder `out`: `last.pt` (all that resuming needs) and `log.jsonl`.

    `init` are starting weights by the names of `Transformer.state_dict()`; random without. Raises CheckpointError if
    they do not fit `config`, and InputError if a source or a dev set cannot be read or is empty."""

    def __init__(
        self, recipe: Recipe, config: CheckpointConfig, tokenizer: Tokenizer, out: str | Path, device: str = "cpu",
        init: dict[str, Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.recipe, self.config, self.tokenizer, self.out = recipe, config, tokenizer, Path(out)
        self.device = torch.device(device)
        self.out.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(recipe.seed)
        self.model = Transformer(config.model)
        if init is None:
            initialise(self.model)
        else:
            init = dict(init)
            for name, value in self.model.state_dict().items():
                if "segment" in name and name not in init:  # weights of a model without kinds of pieces: all the same
                    init[name] = torch.randn(value.shape, generator=torch.Generator().manual_seed(recipe.seed))
                    init[name][0] = 0
                elif "copy_gate" in name and name not in init:  # of one that does not copy: it hardly does, at first
                    init[name] = torch.full_like(value, COPY_BIAS if name.endswith("bias") else 0.0)
            check_tensors(_shapes(init), _shapes(self.model.state_dict()), "the file of starting weights")
            self.model.load_state_dict(init)
        self.model.to(self.device)
        self.average = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        decayed = [p for p in self.model.parameters() if p.ndim > 1]
        plain = [p for p in self.model.parameters() if p.ndim <= 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}],
            lr=recipe.lr, betas=recipe.adam_betas, eps=1e-9, fused=True,
        )  # fmt: skip
        self.generator = torch.Generator().manual_seed(recipe.seed)
        self.dev = [(dev_name(s.path), s.task, dev_rows(s.path, recipe.dev_limit, s.task)) for s in recipe.dev]
        cache = self.out.parent / "cache"
        corpora = [
            load_corpus(s, tokenizer, config.special, config.tasks, recipe.max_length, cache) for s in recipe.sources
        ]
        self.aligner = Aligner.of(corpora, tokenizer.vocab_size) if recipe.alignment else None
        self.batches = Batches(corpora, config.special, config.tasks, recipe.batch_tokens, seed=recipe.seed)
        self.step = self.tokens = 0
        self.seconds = 0.0

    # -- resuming -----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Writes `last.pt`, atomically."""
        state = {
            "model": self.model.state_dict(), "average": self.average, "optimizer": self.optimizer.state_dict(),
            "batches": self.batches.state(), "generator": self.generator.get_state(), "torch": torch.get_rng_state(),
            "step": self.step, "tokens": self.tokens, "seconds": self.seconds,
        }  # fmt: skip
        part = self.out / "last.pt.part"
        torch.save(state, part)
        os.replace(part, self.out / "last.pt")

    def resume(self) -> bool:
        """Continues from `last.pt` if there is one, exactly where it left off; False if there is none.

        Raises CheckpointError if it is damaged or of another architecture."""
        path = self.out / "last.pt"
        if not path.exists():
            return False
        state = read_state(path, self.device)
        check_tensors(_shapes(state["model"]), _shapes(self.model.state_dict()), path)
        self.model.load_state_dict(state["model"])
        self.average = state["average"]
        self.optimizer.load_state_dict(state["optimizer"])
        self.batches.restore(state["batches"])
        self.generator.set_state(state["generator"].cpu())
        torch.set_rng_state(state["torch"].cpu())
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        return True

    # -- training -----------------------------------------------------------------------------------------------------

    def loss(self, batch: Batch) -> tuple[Tensor, Tensor, int]:
        """Summed smoothed loss and summed nll (nats) over the target pieces of a batch, and their number."""
        src, tgt_in, labels = (t.to(self.device) for t in (batch.src, batch.tgt_in, batch.labels))
        mask = None if batch.src_mask is None else batch.src_mask.to(self.device)
        kinds = None if batch.kinds is None else batch.kinds.to(self.device)
        kind = precision(self.device)
        with torch.autocast(self.device.type, kind, enabled=kind != torch.float32):
            memory = self.model.encode(src, mask, kinds)
            if batch.places is not None:
                _, _, cross = self.model.decode(memory, mask, tgt_in, need_weights=True)
                pointing = pointing_loss(cross[-1][:, POINTING_HEAD], batch.places.to(self.device))
                return pointing, pointing.detach(), len(src)
            copies = self.config.model.pointer_generator
            aligner = self.aligner if batch.group == "translate" else None
            x, _, cross = self.model.decode(memory, mask, tgt_in, need_weights=copies or aligner is not None)
            gate = copied = None
            if copies:
                gate = self.model.copy_gate(x).sigmoid().float().flatten()
                same = src[:, None, :] == labels[:, :, None]
                copied = (cross[-1][:, POINTING_HEAD].float() * same).sum(-1).flatten()
            real = labels.flatten() != -100
            rows, labels = x.flatten(0, 1), labels.flatten()
            if not bool(real.all()):
                rows, labels = rows[real], labels[real]
                gate, copied = (None if v is None else v[real] for v in (gate, copied))
            if self.config.model.scale_logits:
                rows = rows / math.sqrt(self.config.model.d_model)
            loss, nll = cross_entropy(
                rows, self.model.output_table, self.model.logits_bias if self.config.model.logits_bias else None,
                labels, self.recipe.label_smoothing, self.recipe.negatives, self.generator, gate=gate, copied=copied,
            )  # fmt: skip
            if aligner is not None:
                to_english = batch.tgt_in[:, 0] == self.config.tasks["translate:en"].tgt_prefix[0]
                links = aligner.of_batch(batch, to_english).to(self.device)
                loss = loss + self.recipe.alignment * alignment_loss(cross[-1][:, POINTING_HEAD], links)
        return loss, nll, len(labels)

    def run(self, until: int | None = None) -> None:
        """Trains to step `until` (default: the recipe's last), logging, measuring and saving on the way.

        A step whose gradient is not finite changes no weights; the log counts it as `skipped`, and not in `nll`."""
        recipe = self.recipe
        end = recipe.steps if until is None else min(until, recipe.steps)
        self.model.train()
        stream = iter(self.batches)
        last_saved, started = time.monotonic(), time.monotonic() - self.seconds
        sums, skipped, tokens_before, time_before = _Sums(), 0, self.tokens, time.monotonic()
        while self.step < end:
            batch = next(stream)
            for group in self.optimizer.param_groups:
                group["lr"] = recipe.lr_at(self.step)
            loss, nll, n = self.loss(batch)
            self.optimizer.zero_grad(set_to_none=True)
            (loss / n).backward()  # type: ignore[no-untyped-call]
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip_norm, foreach=True)
            if torch.isfinite(norm):
                self.optimizer.step()
                sums.add(batch, float(nll), n)
            else:
                skipped += 1
            self.step += 1
            self.tokens += batch.n_tokens
            if (
                self.step % 4 == 0
            ):  # every fourth step, with the decay of four: the same average for a quarter of the cost
                self._update_average(min(recipe.ema, (1 + self.step) / (10 + self.step)) ** 4)
            now = time.monotonic()
            self.seconds = now - started
            if self.step % recipe.log_every == 0 or self.step == end:
                rate = (self.tokens - tokens_before) / (now - time_before)
                self.log(
                    step=self.step, **sums.means(), lr=recipe.lr_at(self.step - 1),
                    norm=round(float(norm), 3) if torch.isfinite(norm) else None, tokens=self.tokens, tokens_per_second=round(rate),
                    seconds=round(self.seconds, 1), **({"skipped": skipped} if skipped else {}),
                )  # fmt: skip
                sums, skipped, tokens_before, time_before = _Sums(), 0, self.tokens, now
            if recipe.dev and (self.step % recipe.dev_every == 0 or self.step == end):
                self.measure()
                time_before += time.monotonic() - now  # it does not count as training
            if time.monotonic() - last_saved > recipe.save_every_seconds or self.step == end:
                self.save()
                last_saved = time.monotonic()

    def _update_average(self, decay: float) -> None:
        with torch.no_grad():
            parameters = [p.detach() for p in self.model.parameters()]
            torch._foreach_lerp_(list(self.average.values()), parameters, 1 - decay)

    def log(self, **values: Any) -> None:
        """One JSON line to `log.jsonl`, the same to stderr."""
        with (self.out / "log.jsonl").open("a") as file:
            file.write(json.dumps(values, ensure_ascii=False) + "\n")
        print(
            " ".join(f"{k} {v:.2e}" if k == "lr" else f"{k} {v}" for k, v in values.items()),
            file=sys.stderr,
            flush=True,
        )

    # -- measuring and exporting --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """Inside, the model has the averaged weights."""
        own = {name: p.detach().clone() for name, p in self.model.named_parameters()}
        with torch.no_grad():
            for name, p in self.model.named_parameters():
                p.copy_(self.average[name])
        self.model.eval()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, p in self.model.named_parameters():
                    p.copy_(own[name])
            self.model.train()

    def measure(self) -> dict[str, float | str]:
        """What the averaged weights score on the first `dev_limit` rows of each dev set: BLEU and chrF of greedy
        translations, both ways, exact match and F1 of answers; and the first of each, to look at."""
        import sacrebleu

        scores: dict[str, float | str] = {}
        with self.averaged():
            for dev, task, rows in self.dev:
                if task.startswith("answer"):
                    name = f"{dev}.generate" if task == "answer:generate" else dev
                    scores.update({f"{name}.{k}": v for k, v in self.measure_answers(rows, task).items()})
                    continue
                for source, target in (("en", "zh"), ("zh", "en")):
                    if task not in ("translate", f"translate:{target}"):
                        continue
                    texts = self.translate([r[source] for r in rows], f"translate:{target}")
                    references = [[r[target] for r in rows]]
                    name = f"{dev}.{source}-{target}"
                    bleu = sacrebleu.corpus_bleu(texts, references, tokenize="zh" if target == "zh" else "13a")
                    scores[f"{name}.bleu"] = round(bleu.score, 2)
                    scores[f"{name}.chrf"] = round(sacrebleu.corpus_chrf(texts, references).score, 2)
                    scores[f"{name}.first"] = texts[0]
        self.log(step=self.step, seconds=round(self.seconds, 1), dev=scores)
        return scores

    def translate(self, texts: Sequence[str], task: str, beam_size: int = 1, batch: int = 100) -> list[str]:
        """The texts, a sentence each, through the model as it is now. What exceeds `max_length` pieces is cut off."""
        special, settings = self.config.special, self.config.generation
        settings = type(settings)(**{**asdict(settings), "beam_size": beam_size})
        prefix = self.config.tasks[task].tgt_prefix or (special.decoder_start,)
        first_pieces = list(self.config.tasks[task].src_prefix)
        src = [[*(first_pieces + self.tokenizer.encode(t))[: self.recipe.max_length - 1], special.eos] for t in texts]
        stepper = TorchStepper(self.model, special.pad)
        out = [""] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(src[i]))
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            found = generate(stepper, [src[i] for i in rows], config=settings, special=special, prefix=prefix)
            for i, hypotheses in zip(rows, found, strict=True):
                out[i] = self.tokenizer.decode(hypotheses[0].ids)
        return out

    def measure_answers(self, rows: Sequence[Mapping[str, str]], task: str = "answer") -> dict[str, float | str]:
        """Exact match and F1 in percent, and the first answer."""
        texts = best_answers(TorchStepper(self.model, self.config.special.pad), self.config, self.tokenizer, rows, task)
        em = f1 = 0.0
        for row, text in zip(rows, texts, strict=True):
            answers = row.get("answers") or [row["answer"]]
            em += max(evaluation.exact_match(text, x) for x in answers)
            f1 += max(evaluation.f1(text, x) for x in answers)
        return {"em": round(100 * em / len(rows), 2), "f1": round(100 * f1 / len(rows), 2), "first": texts[0]}

    def export(self, path: str | Path, card: str) -> None:
        """Writes the averaged weights as a checkpoint that `tx` loads, in fp16."""
        save_checkpoint(path, self.config, self.average, self.tokenizer.to_json(), card)


def read_state(path: Path, device: torch.device) -> dict[str, Any]:
    """The content of a `last.pt`. Only tensors and plain values are accepted. CheckpointError if it cannot be read."""
    try:
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        if not {"model", "average", "step"} <= set(state):
            raise ValueError("not the state of a run")
    except (OSError, EOFError, RuntimeError, ValueError, TypeError, pickle.UnpicklingError) as error:
        raise CheckpointError(f"{path} cannot be read: {one_line(error)[:200]}") from error
    return state


def export_run(run: str | Path, config: CheckpointConfig, tokenizer: Tokenizer, card: str, path: str | Path) -> int:
    """Writes the averaged weights of a run's `last.pt`, finished or not, as a checkpoint; returns the run's step.

    Raises CheckpointError if the run cannot be read or its tensors are not those of `config`."""
    file = Path(run) / "last.pt"
    state = read_state(file, torch.device("cpu"))
    with torch.device("meta"):
        expected = Transformer(config.model).state_dict()
    check_tensors(_shapes(state["average"]), _shapes(expected), file)
    save_checkpoint(path, config, state["average"], tokenizer.to_json(), card)
    return int(state["step"])


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def dev_name(path: str | Path) -> str:
    """What the log calls a dev set: "everyday" for `dev/translate.everyday.tsv.gz`."""
    parts = [p for p in Path(path).name.split(".") if p not in ("gz", "tsv", "jsonl")]
    return parts[-1] if parts else Path(path).name


def dev_rows(path: str | Path, limit: int, task: str = "translate") -> list[Mapping[str, str]]:
    """The first `limit` rows of a dev set. InputError if there is none, or one without the fields of its task."""
    fields = ("context", "question", "answer") if task.startswith("answer") else ("en", "zh")
    rows = list(itertools.islice(read_rows(path), limit))
    if not rows:
        raise InputError(f"{path}: the dev set is empty")
    for n, row in enumerate(rows, 1):
        if not all(isinstance(row.get(field), str) for field in fields):
            raise InputError(f"{path} row {n}: expected the text fields {', '.join(fields)}")
    return rows
