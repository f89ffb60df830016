"""`tx` with a translator that writes in capitals: what it does with lines, files and signals can be tested without a
model, in a process of its own (`python fake_tx.py translate …`) too."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tx.model.errors import CheckpointError, UsageError
from tx.model.glossary import Glossary
from tx.model.results import Alignment, Translation

calls: deque[list[str]] = deque(maxlen=10)  # the texts of the last calls
more_follows: deque[bool] = deque(maxlen=10)  # what they were told of further texts
made: list[dict[str, object]] = []  # the settings of each translator


class Runtime:
    """What processes that share a model ask of it."""

    def prepare(self, processes: int) -> None:
        pass

    def begin(self) -> None:
        pass

    def precision_used(self) -> str:
        return "bf16"


class Translator:
    """Some words make it do what a model may do."""

    runtime = Runtime()
    path = Path(__file__)
    engine = "numpy"

    pairs = [("en", "zh"), ("zh", "en")]

    def __init__(
        self,
        model: str | None = None,
        *,
        device: str = "cpu",
        threads: int | None = None,
        engine: str = "auto",
        **more: object,
    ) -> None:
        if model == "/nope":
            raise CheckpointError("no model at /nope\nlook [elsewhere]")
        made.append({"model": model, "device": device, "threads": threads, "engine": engine, **more})

    def translate(
        self,
        texts: Sequence[str],
        *,
        source: str | None = None,
        target: str | None = None,
        beam_size: int | None = None,
        batch_size: int = 32,
        more: bool = False,
        protected: Sequence[Sequence[tuple[int, int]]] = (),
        glossary: Glossary | None = None,
        n_best: int | None = None,
        align: bool = False,
    ) -> list[Translation]:
        if not {source, target} <= {None, "en", "zh"}:
            raise UsageError(f"the model fake does not translate {source} → {target}; it translates en → zh, zh → en")
        if texts:
            calls.append(list(texts))
            more_follows.append(more)
        results = []
        for text in texts:
            if text == "boom":
                raise ValueError("a bug\nof two lines")
            if text.startswith("sleep"):
                time.sleep(float(text[5:] or 60))
            while text.startswith("wait for ") and not os.path.exists(text[9:]):
                time.sleep(0.01)
            flags = tuple(
                flag for flag in ("cut", "looped", "split", "lost", "invented", "untranslated") if flag in text
            )
            score = float("-inf") if text == "infinite" else -0.123456
            reply = "one\ntwo" if text == "two lines" else text.upper()
            if os.environ.get("FAKE_TX") == "identity":
                reply = text
            for span in glossary.find(text, "en", "zh") if glossary else ():
                reply = reply.replace(text[span.start : span.end].upper(), span.output)
            language = source or "en"
            if target == "zh" and "好" in text:  # in the language that is asked for already
                language, reply, flags = "zh", text, ("copied",)
            several = [(reply, score), (reply.lower(), -1.0), (reply.title(), -2.0)][: n_best or 0]
            words = tuple(match.span() for match in re.finditer(r"\S+", text))
            links = Alignment(words, words, tuple((i, i) for i in range(len(words)))) if align else None
            results.append(Translation(text, reply, language, target or "zh", score, flags, tuple(several), links))
        return results


def pipeline() -> ModuleType:
    """A module to stand in for tx.model.pipeline."""
    module = ModuleType("tx.model.pipeline")
    module.Translator = Translator  # type: ignore[attr-defined]
    return module


if __name__ == "__main__":
    sys.modules["tx.model.pipeline"] = pipeline()
    from tx.cli.main import main

    if "FAKE_TX_DELAY" in os.environ:
        from tx.cli import progress

        progress.DELAY = float(os.environ["FAKE_TX_DELAY"])

    sys.exit(main())
