"""The training loop: optimiser, schedule, averaged weights, measuring on dev sets, and runs that can be resumed."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..checkpoint import save_checkpoint
from ..config import CheckpointConfig, ModelConfig, SpecialIds, Task
from ..errors import ConfigError, InputError
from ..generation import generate
from ..tokenizer import Tokenizer
from ..torch_engine import TorchStepper
from ..transformer import Transformer
from .data import Batch, Batches, Source, load_corpus, read_rows
from .loss import cross_entropy


@dataclass(frozen=True)
class Recipe:
    """All that decides a run: `recipe.json`. Lengths count pieces, `batch_tokens` source + target pieces, `warmup` and
    `decay` optimiser steps. The learning rate rises linearly over `warmup` steps to `lr`, stays, and falls linearly to
    `lr_end` over the last `decay` of `steps` steps."""

    sources: tuple[Source, ...]
    dev: tuple[Source, ...] = ()
    steps: int = 1000
    batch_tokens: int = 4000
    max_length: int = 100
    lr: float = 1e-3
    lr_end: float = 1e-5
    warmup: int = 200
    decay: int = 500
    adam_betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    label_smoothing: float = 0.1
    negatives: int = 0
    ema: float = 0.999
    seed: int = 1
    log_every: int = 20
    dev_every: int = 500
    dev_limit: int = 200
    save_every_seconds: float = 600.0
    notes: str = field(default="")

    @classmethod
    def from_json(cls, path: str | Path) -> Recipe:
        """Reads a recipe; relative paths in it are relative to its folder. ConfigError names an unknown field."""
        path = Path(path)
        try:
            values = json.loads(path.read_text())
            for group in ("sources", "dev"):
                values[group] = tuple(
                    Source(**{**s, "path": str(path.parent / s["path"])}) for s in values.get(group, ())
                )
            values["adam_betas"] = tuple(values.get("adam_betas", (0.9, 0.98)))
            return cls(**values)
        except (OSError, json.JSONDecodeError, TypeError, KeyError) as error:
            raise ConfigError(f"recipe {path}: {error}") from error

    def lr_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = min(1.0, (step + 1) / max(1, self.warmup))
        left = (self.steps - step) / max(1, self.decay)
        return self.lr_end + (self.lr - self.lr_end) * min(1.0, max(0.0, left)) * rise


def precision(device: torch.device) -> torch.dtype:
    """The fastest safe type for matrix products: bfloat16 on CUDA and on CPUs with matrix units (AMX), else float32."""
    if device.type == "cuda":
        return torch.bfloat16
    with contextlib.suppress(OSError):
        if "amx_bf16" in Path("/proc/cpuinfo").read_text():
            return torch.bfloat16
    return torch.float32


class Trainer:
    """One run in a folder `out`: `last.pt` (all that resuming needs), `log.jsonl`, and checkpoints that `tx` can load."""

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
        cache = self.out.parent / "cache"
        corpora = [
            load_corpus(s, tokenizer, config.special, config.tasks, recipe.max_length, cache) for s in recipe.sources
        ]
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
        """Continues from `last.pt` if there is one, exactly where it left off; False if there is none."""
        path = self.out / "last.pt"
        if not path.exists():
            return False
        state = torch.load(path, map_location=self.device, weights_only=True)
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
        kind = precision(self.device)
        with torch.autocast(self.device.type, kind, enabled=kind != torch.float32):
            x, _, _ = self.model.decode(self.model.encode(src, mask), mask, tgt_in)
            real = labels.flatten() != -100
            rows, labels = x.flatten(0, 1), labels.flatten()
            if not bool(real.all()):
                rows, labels = rows[real], labels[real]
            if self.config.model.scale_logits:
                rows = rows / math.sqrt(self.config.model.d_model)
            loss, nll = cross_entropy(
                rows, self.model.output_table, self.model.logits_bias if self.config.model.logits_bias else None,
                labels, self.recipe.label_smoothing, self.recipe.negatives, self.generator,
            )  # fmt: skip
        return loss, nll, len(labels)

    def run(self, until: int | None = None) -> None:
        """Trains to step `until` (default: the recipe's last), logging, measuring and saving on the way."""
        recipe, end = self.recipe, min(until or self.recipe.steps, self.recipe.steps)
        self.model.train()
        stream = iter(self.batches)
        last_saved, started = time.monotonic(), time.monotonic() - self.seconds
        nll_sum, n_sum, tokens_before, time_before = 0.0, 0, self.tokens, time.monotonic()
        while self.step < end:
            batch = next(stream)
            for group in self.optimizer.param_groups:
                group["lr"] = recipe.lr_at(self.step)
            loss, nll, n = self.loss(batch)
            self.optimizer.zero_grad(set_to_none=True)
            (loss / n).backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), recipe.clip_norm, foreach=True)
            if torch.isfinite(norm):
                self.optimizer.step()
            self.step += 1
            self.tokens += batch.n_tokens
            if self.step % 4 == 0:  # every fourth step, with the decay of four: the same average for a quarter of the cost
                self._update_average(min(recipe.ema, (1 + self.step) / (10 + self.step)) ** 4)
            nll_sum, n_sum = nll_sum + float(nll), n_sum + n
            now = time.monotonic()
            self.seconds = now - started
            if self.step % recipe.log_every == 0 or self.step == end:
                rate = (self.tokens - tokens_before) / (now - time_before)
                self.log(
                    step=self.step, nll=round(nll_sum / n_sum, 4), lr=recipe.lr_at(self.step - 1),
                    norm=round(float(norm), 3), tokens=self.tokens, tokens_per_second=round(rate),
                    seconds=round(self.seconds, 1),
                )  # fmt: skip
                nll_sum, n_sum, tokens_before, time_before = 0.0, 0, self.tokens, now
            if recipe.dev and (self.step % recipe.dev_every == 0 or self.step == end):
                self.measure()
                time_before = time.monotonic()
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
        print(" ".join(f"{k} {v:.2e}" if k == "lr" else f"{k} {v}" for k, v in values.items()), file=sys.stderr, flush=True)

    # -- measuring and exporting --------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def averaged(self) -> Any:
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

    def measure(self) -> dict[str, float]:
        """BLEU and chrF of the averaged weights, greedy, on the first `dev_limit` rows of each dev set, both ways."""
        import sacrebleu

        scores: dict[str, float] = {}
        with self.averaged():
            for dev in self.recipe.dev:
                if not dev.task.startswith("translate"):
                    raise InputError(f"cannot measure task {dev.task} in training: {dev.path}")
                rows = [row for _, row in zip(range(self.recipe.dev_limit), read_rows(dev.path), strict=False)]
                for source, target in (("en", "zh"), ("zh", "en")):
                    if dev.task not in ("translate", f"translate:{target}"):
                        continue
                    texts = self.translate([r[source] for r in rows], f"translate:{target}")
                    references = [[r[target] for r in rows]]
                    name = f"{Path(dev.path).name.split('.')[-2]}.{source}-{target}"
                    bleu = sacrebleu.corpus_bleu(texts, references, tokenize="zh" if target == "zh" else "13a")
                    scores[f"{name}.bleu"] = round(bleu.score, 2)
                    scores[f"{name}.chrf"] = round(sacrebleu.corpus_chrf(texts, references).score, 2)
                    scores[f"{name}.first"] = texts[0]  # type: ignore[assignment]
        self.log(step=self.step, seconds=round(self.seconds, 1), dev=scores)
        return scores

    def translate(self, texts: Sequence[str], task: str, beam_size: int = 1, batch: int = 100) -> list[str]:
        """The texts, a sentence each, through the model as it is now."""
        special, settings = self.config.special, self.config.generation
        settings = type(settings)(**{**asdict(settings), "beam_size": beam_size})
        prefix = self.config.tasks[task].tgt_prefix or (special.decoder_start,)
        src = [self.tokenizer.encode(t)[: self.recipe.max_length - 1] + [special.eos] for t in texts]
        stepper = TorchStepper(self.model, special.pad)
        out = [""] * len(texts)
        order = sorted(range(len(texts)), key=lambda i: len(src[i]))
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            found = generate(stepper, [src[i] for i in rows], config=settings, special=special, prefix=prefix)
            for i, hypotheses in zip(rows, found, strict=True):
                out[i] = self.tokenizer.decode(hypotheses[0].ids)
        return out

    def export(self, path: str | Path, card: str, kind: torch.dtype = torch.float16) -> None:
        """Writes the averaged weights as a checkpoint that `tx` loads."""
        tensors = {name: value.detach().to("cpu", kind).contiguous() for name, value in self.average.items()}
        save_checkpoint(Path(path), self.config, tensors, self.tokenizer.to_json(), card)


def initialise(model: Transformer) -> None:
    """Random starting weights: Glorot for matrices, N(0, 1/d_model) for embeddings; norms and biases keep 1 and 0."""
    for name, p in model.named_parameters():
        if "embedding" in name and p.ndim > 1:
            torch.nn.init.normal_(p, std=model.config.d_model**-0.5)
        elif p.ndim > 1:
            torch.nn.init.xavier_uniform_(p)
        elif name.endswith("bias"):
            torch.nn.init.zeros_(p)


def model_config(vocab_size: int, **sizes: Any) -> ModelConfig:
    """The architecture of the project's own weights: post-norm, ReLU, sinusoids, as the students that they start from."""
    defaults: dict[str, Any] = {
        "d_model": 256, "n_heads": 8, "d_head": 32, "d_ff": 1536, "n_encoder_layers": 6, "n_decoder_layers": 2,
        "norm_eps": 1e-6, "sinusoid_layout": "tensor2tensor", "share_embeddings": False, "logits_bias": True,
    }  # fmt: skip
    return ModelConfig(src_vocab_size=vocab_size, tgt_vocab_size=vocab_size, **{**defaults, **sizes})


def checkpoint_config(tokenizer: Tokenizer, name: str, **sizes: Any) -> CheckpointConfig:
    """Architecture, special pieces and tasks for a vocabulary made by `vocabulary.build`."""
    start = tokenizer.id("<translate:zh>")
    return CheckpointConfig(
        model=model_config(tokenizer.vocab_size, **sizes),
        special=SpecialIds(pad=tokenizer.id("<pad>"), eos=tokenizer.id("</s>"), decoder_start=start, unk=tokenizer.id("<unk>")),
        tasks={
            "translate:zh": Task(tgt_prefix=(start,), source="en", target="zh"),
            "translate:en": Task(tgt_prefix=(tokenizer.id("<translate:en>"),), source="zh", target="en"),
            "summarize": Task(tgt_prefix=(tokenizer.id("<summarize>"),)),
            "answer": Task(tgt_prefix=(tokenizer.id("<answer>"),)),
        },
        name=name,
    )  # fmt: skip
