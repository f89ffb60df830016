"""A plain `tx translate …` read without typer, whose import would take a fifth of the time to the first word.

Only what can mean one thing is read here; help, mistakes and every other way to write an option are left to app.py,
which declares the options for people. A test compares that declaration with the tables below. Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What the command line may have, and the keyword of commands.translate for it ("debug" is no matter of the command).
FLAGS = {"--json": "as_json", "--strict": "strict", "-q": "quiet", "--quiet": "quiet", "--debug": "debug"}
VALUED = {
    "-i": "files",
    "--input": "files",
    "-o": "output",
    "--output": "output",
    "--from": "source",
    "--to": "target",
    "--model": "model",
    "--beam": "beam",
    "--batch-size": "batch_size",
    "--encoding": "encoding",
    "--threads": "threads",
    "--device": "device",
    "--engine": "engine",
}
REPEATED = {"files"}  # every value counts, not the last
DEFAULTS = {"encoding": "utf-8", "device": "cpu", "engine": "auto"}  # None for the others
VARIABLES = {"threads": "TX_THREADS", "engine": "TX_ENGINE"}  # of the environment: they come before the default
COMPLETION = {"_TX_COMPLETE", "_TX_NLP_COMPLETE"}  # set where a shell asks for completions


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any] | None:
    """The keyword arguments of commands.translate, and "debug"; None where typer has to look."""
    if arguments[:1] != ["translate"] or not COMPLETION.isdisjoint(environment):
        return None
    texts: list[str] = []
    values: dict[str, Any] = {keyword: DEFAULTS.get(keyword) for keyword in VALUED.values()}
    values |= {keyword: environment.get(name) or values[keyword] for keyword, name in VARIABLES.items()}
    values |= {keyword: [] for keyword in REPEATED} | dict.fromkeys(FLAGS.values(), False)
    rest = iter(arguments[1:])
    for token in rest:
        if token == "--":
            texts += rest
        elif token in FLAGS:
            values[FLAGS[token]] = True
        elif token in VALUED:
            keyword, value = VALUED[token], next(rest, None)
            if value is None:
                return None
            values[keyword] = [*values[keyword], value] if keyword in REPEATED else value
        elif token.startswith("-") and token != "-":
            return None
        else:
            texts.append(token)
    return {"texts": texts, **values}
