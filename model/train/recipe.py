"""A recipe: everything that decides a training run, as a JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..checkpoint import one_line
from ..config import from_dict
from ..errors import ConfigError
from .data import TASKS, Source


@dataclass(frozen=True)
class Recipe:
    """All that decides a run: `recipe.json`. Lengths count pieces, `batch_tokens` source + target pieces, `warmup` and
    `decay` optimiser steps. The learning rate rises linearly over `warmup` steps to `lr`, stays, and falls linearly to
    `lr_end` over the last `decay` of `steps` steps. Dev sets are translations and questions (answer: pointed at,
    answer:generate: generated). With `alignment` the copying head of the last decoder layer learns, in translations, to look
    at the source piece that each piece translates (module guided), with this weight beside the likelihood. ConfigError
    names a value out of range."""

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
    alignment: float = 0.0
    ema: float = 0.999
    seed: int = 1
    log_every: int = 20
    dev_every: int = 500
    dev_limit: int = 200
    save_every_seconds: float = 600.0
    notes: str = field(default="")

    def __post_init__(self) -> None:
        checks = {
            "sources": len(self.sources) > 0 and all(s.weight >= 0 and s.task in TASKS for s in self.sources),
            "dev": all(s.task in TASKS and s.task != "summarize" for s in self.dev),
            "steps": self.steps >= 1, "batch_tokens": self.batch_tokens >= 1, "max_length": self.max_length >= 2,
            "lr": self.lr > 0, "lr_end": self.lr_end >= 0, "warmup": self.warmup >= 0, "decay": self.decay >= 0,
            "adam_betas": len(self.adam_betas) == 2 and all(0 <= beta < 1 for beta in self.adam_betas),
            "weight_decay": self.weight_decay >= 0, "clip_norm": self.clip_norm > 0,
            "label_smoothing": 0 <= self.label_smoothing < 1, "negatives": self.negatives >= 0,
            "alignment": self.alignment >= 0, "ema": 0 <= self.ema < 1,
            "log_every": self.log_every >= 1, "dev_every": self.dev_every >= 1, "dev_limit": self.dev_limit >= 1,
        }  # fmt: skip
        for name, good in checks.items():
            if not good:
                raise ConfigError(f"{name} is out of range: {getattr(self, name)!r}")

    @classmethod
    def from_json(cls, path: str | Path) -> Recipe:
        """Reads a recipe; relative paths in it are relative to its folder. ConfigError names the field at fault."""
        path = Path(path)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            for group in ("sources", "dev"):
                found = [from_dict(Source, s) for s in values.get(group, ())]
                values[group] = tuple(
                    replace(s, path=str(path.parent / s.path), terms=s.terms and str(path.parent / s.terms))
                    for s in found
                )
            if "adam_betas" in values:
                values["adam_betas"] = tuple(values["adam_betas"])
            return from_dict(cls, values)
        except (ConfigError, OSError, ValueError, TypeError, AttributeError) as error:
            raise ConfigError(f"recipe {path}: {one_line(error)}") from error

    def lr_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        rise = min(1.0, (step + 1) / max(1, self.warmup))
        left = (self.steps - step) / max(1, self.decay)
        return self.lr_end + (self.lr - self.lr_end) * min(1.0, max(0.0, left)) * rise
