"""A plain `tx translate …` read without typer, whose import would take a fifth of the time to the first word.

Only what can mean one thing is read here; help, mistakes and every other way to write an option are left to app.py,
which declares the options for people. A test compares that declaration with the tables below. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

# What the command line may have, and the keyword of commands.translate for it ("debug" is no matter of the command).
FLAGS = {
    "--in-place": "in_place",
    "--paragraph": "paragraph",
    "--shortlist": "shortlist",
    "--json": "as_json",
    "--score": "with_score",
    "--align": "align",
    "--strict": "strict",
    "-q": "quiet",
    "--quiet": "quiet",
    "--no-progress": "no_progress",
    "--debug": "debug",
}
VALUED = {
    "-i": "files",
    "--input": "files",
    "-o": "output",
    "--output": "output",
    "--resume": "resume",
    "--suffix": "suffix",
    "--format": "format",
    "--field": "fields",
    "--from": "source",
    "--to": "target",
    "--model": "model",
    "--beam": "beam",
    "--batch-size": "batch_size",
    "--max-memory": "max_memory",
    "--glossary": "glossary",
    "--n-best": "n_best",
    "--encoding": "encoding",
    "--threads": "threads",
    "--jobs": "jobs",
    "--device": "device",
    "--engine": "engine",
    "--precision": "precision",
}
REPEATED = {"files", "fields"}  # every value counts, not the last
DEFAULTS = {"encoding": "utf-8", "device": "cpu", "engine": "auto", "precision": "fp32"}  # None for the others
# of the environment: they come before the default
VARIABLES = {"model": "TX_MODEL", "threads": "TX_THREADS", "device": "TX_DEVICE", "engine": "TX_ENGINE"}
COMPLETION = {"_TX_COMPLETE", "_TX_NLP_COMPLETE"}  # set where a shell asks for completions


def parse(
    arguments: Sequence[str], environment: Mapping[str, str], settings: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """The keyword arguments of commands.translate, and "debug"; None where typer has to look. `settings` are those of the
    user's configuration file, by keyword: they come after the environment and before the default."""
    if arguments[:1] != ["translate"] or not COMPLETION.isdisjoint(environment):
        return None
    texts: list[str] = []
    values: dict[str, Any] = {keyword: DEFAULTS.get(keyword) for keyword in VALUED.values()}
    values |= dict.fromkeys(FLAGS.values(), False) | dict(settings or {})
    default = {keyword: list(values[keyword] or ()) for keyword in REPEATED}
    values |= {keyword: [] for keyword in REPEATED}
    values |= {keyword: environment.get(name) or values[keyword] for keyword, name in VARIABLES.items()}
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
    values |= {keyword: values[keyword] or default[keyword] for keyword in REPEATED}
    return {"texts": texts, **values}


def has_configuration(environment: Mapping[str, str]) -> bool:
    """Whether there may be a configuration file of the user's, in the places that user_settings.config_path describes."""
    if "TX_CONFIG" in environment:
        return bool(environment["TX_CONFIG"])
    folder = environment.get("XDG_CONFIG_HOME", "")
    folder = folder if os.path.isabs(folder) else os.path.join(os.path.expanduser("~"), ".config")
    return os.path.exists(os.path.join(folder, "tx", "config.toml"))
