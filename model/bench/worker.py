"""The program of a child that translates with tx: `python -m tx.model.bench.worker`.

Reads a line of JSON, what to open, then a line for each thing to do, and answers each with a line of JSON (see
`answer`); what else is written to the standard output goes to the standard error. An error that is meant to be shown is
the answer {"error": …}.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from ..errors import TxError
from . import machine

if TYPE_CHECKING:
    from ..pipeline import Translator


def opened(opening: Mapping[str, Any]) -> tuple[Translator, dict[str, Any]]:
    """A translator that has translated once, and what there is to know of it. `opening` has "model", "settings" (those of a
    Runtime), and "asked" and "warm": the first call of Translator.translate."""
    from ..pipeline import Translator

    translator = Translator(opening["model"], **opening["settings"])
    checkpoint = translator.checkpoint
    translator.translate(opening["warm"], **opening["asked"])
    gc.collect()
    config = checkpoint.config
    return translator, {
        "engine": translator.engine,
        "model": config.name or translator.path.name,
        "path": str(translator.path.resolve()),
        "own": bool(checkpoint.sha256),
        "pairs": translator.pairs[:100],
        "beam": config.generation.beam_size,
        "shortlist": checkpoint.shortlist is not None,
        "sizes": asdict(config.model),
        "peak_bytes": machine.peak_bytes(),
    }


def answer(translator: Translator, request: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked for.

    {"do": "translate", "texts": […], "asked": {…}, "length": N or None}: all of the texts at once, with these arguments of
    Translator.translate; with a length every output may have so many pieces. {"seconds", "texts", "flags" (how often
    each), "peak_bytes" (of this process, so far)}.
    {"do": "count", "texts": […]}: {"pieces"} that outputs have, the end pieces among them.
    {"do": "read", "texts": […]}: {"pieces"} that sources have.
    """
    if request["do"] in ("count", "read"):
        checkpoint = translator.checkpoint
        tokenizer = checkpoint.tokenizer if request["do"] == "read" else checkpoint.target_tokenizer
        return {"pieces": sum(len(tokenizer.encode(text)) + 1 for text in request["texts"])}
    asked = dict(request["asked"])
    if request.get("length"):
        # not the beam's settings: `beam_size` in `asked` replaces them
        limits = {"max_length": request["length"], "max_length_constant": request["length"]}
        asked["settings"] = replace(translator.checkpoint.config.generation, **limits)
    start = time.perf_counter()
    results = translator.translate(request["texts"], **asked)
    seconds = time.perf_counter() - start
    flags: dict[str, int] = {}
    for result in results:
        for flag in result.flags:
            flags[flag] = flags.get(flag, 0) + 1
    texts = [result.text for result in results]
    return {"seconds": seconds, "texts": texts, "flags": flags, "peak_bytes": machine.peak_bytes()}


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    translator = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if translator is None:
                translator, reply = opened(request)
            else:
                reply = answer(translator, request)
        except TxError as error:
            reply = {"error": " ".join(str(error).split())}
        channel.write(json.dumps(reply) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
