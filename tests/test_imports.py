"""Imports go one way (the map is in the README), and what should be light is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOUNDATION = {"errors", "results", "config"}
LAYERS = FOUNDATION | {"positions", "attention", "layers", "transformer"}

# Which modules of model/ each module of model/ may import, anywhere in it.
ALLOWED = {
    "errors": set(),
    "results": {"errors"},
    "threads": set(),
    "memory": FOUNDATION,
    "config": {"errors"},
    "positions": FOUNDATION,
    "attention": FOUNDATION | {"positions"},
    "layers": FOUNDATION | {"positions", "attention"},
    "transformer": FOUNDATION | {"positions", "attention", "layers", "int8"},
    "rules": set(),
    "generation": FOUNDATION | {"rules"},
    "torch_engine": LAYERS | {"generation"},
    "numpy_engine": FOUNDATION,
    "int8": FOUNDATION,
    "precision": LAYERS | {"int8"},
    "tokenizer": FOUNDATION | {"foreign_tokenizer"},
    "sentence_ends": set(),
    "paragraphs": {"sentence_ends"},
    "segment": {"sentence_ends", "paragraphs"},
    "families": FOUNDATION,
    "marian_bin": FOUNDATION,
    "languages": FOUNDATION,
    "sentencepiece_text": FOUNDATION,
    "sentencepiece_model": FOUNDATION | {"sentencepiece_text"},
    "tokenizer_json": FOUNDATION | {"sentencepiece_text"},
    "foreign_tokenizer": FOUNDATION | {"languages", "sentencepiece_model", "sentencepiece_text", "tokenizer_json"},
    "stored_tensors": FOUNDATION | {"tensors"},
    "convert": FOUNDATION | {"families", "numpy_engine", "stored_tensors", "tensors"},
    "tensors": FOUNDATION,
    "places": set(),
    "pulled": FOUNDATION,
    "hub_client": FOUNDATION | {"pulled"},
    "hub": FOUNDATION | {"families", "places", "pulled", "hub_client"},
    "shortlist": FOUNDATION,
    "marian_yaml": FOUNDATION,
    "marian_weights": FOUNDATION | {"marian_bin", "marian_yaml", "tensors"},
    "marian_folder": FOUNDATION | {"marian_weights", "marian_yaml"},
    "foreign": FOUNDATION
    | {"convert", "languages", "foreign_tokenizer", "marian_folder", "marian_weights", "sentencepiece_model"},
    "checkpoint": LAYERS | {"tensors", "tokenizer", "foreign", "places"},
    "matching": FOUNDATION | {"segment", "tokenizer"},
    "spans": FOUNDATION | {"tokenizer", "matching"},
    "runtime": LAYERS
    | {
        "generation",
        "torch_engine",
        "numpy_engine",
        "threads",
        "memory",
        "tensors",
        "checkpoint",
        "precision",
        "shortlist",
        "languages",
    },
    "span_generation": FOUNDATION | {"runtime", "generation", "rules", "spans", "tokenizer"},
    "protect": set(),
    "casing": set(),
    "constrained": FOUNDATION | {"generation", "rules", "runtime"},
    "glossary": FOUNDATION | {"languages", "protect"},
    "alternatives": FOUNDATION,
    "directions": FOUNDATION | {"runtime", "segment", "languages"},
    "plans": FOUNDATION | {"runtime", "directions", "segment", "protect", "casing", "tokenizer", "glossary"},
    "strays": set(),
    "outputs": FOUNDATION
    | {"runtime", "plans", "segment", "protect", "alternatives", "word_links", "strays", "tokenizer"},
    "pipeline": FOUNDATION | {"runtime", "rules", "checkpoint", "plans", "outputs", "constrained", "glossary"},
    "manual": {"segment"},
    "span_ends": {"segment"},
    "answering": FOUNDATION | {"runtime", "segment", "matching", "spans", "span_generation", "manual", "span_ends"},
    "prose": {"segment"},
    "faithful": {"matching", "segment", "tokenizer"},
    "summarizing": FOUNDATION | {"runtime", "segment", "prose", "matching", "faithful", "tokenizer"},
    "attention_maps": FOUNDATION,
    "alignment": FOUNDATION | {"attention_maps"},
    "token_places": {"results", "tokenizer", "protect"},
    "pair_maps": FOUNDATION | {"runtime", "token_places"},
    "word_links": FOUNDATION | {"runtime", "alignment", "pair_maps"},
    "attending": FOUNDATION
    | {
        "runtime",
        "checkpoint",
        "segment",
        "tokenizer",
        "token_places",
        "pair_maps",
        "protect",
        "pipeline",
        "plans",
        "glossary",
        "summarizing",
        "answering",
        "alignment",
    },
    "evaluation": FOUNDATION | {"segment"},
    "answer_scores": FOUNDATION | {"segment", "summarizing", "evaluation"},
    "summary_scores": FOUNDATION | {"segment", "summarizing", "evaluation"},
}
MODEL_FILES = sorted((ROOT / "model").glob("*.py"))
CLI_FILES = sorted((ROOT / "cli").glob("*.py"))


def imports(path: Path, package: tuple[str, ...], top_only: bool = False) -> set[str]:
    """Absolute names of what a file of `package` imports, e.g. "tx.model.errors" or "numpy"."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = tree.body if top_only else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from . import segment` and `from tx import model` name modules after the `import`
            names = [f"{module}.{a.name}" for a in node.names] if module in ("tx", "tx.model", "tx.cli") else [module]
            found |= set(names)
    return found


def own_modules(names: set[str], package: str) -> set[str]:
    prefix = f"tx.{package}."
    return {name.removeprefix(prefix).split(".")[0] for name in names if name.startswith(prefix)}


@pytest.mark.parametrize("path", MODEL_FILES, ids=lambda path: path.stem)
def test_model_imports_go_one_way(path: Path) -> None:
    names = imports(path, ("tx", "model"))
    assert not {name for name in names if name.startswith("tx.cli")}
    if path.stem == "__init__":
        assert not own_modules(names, "model")
        return
    assert path.stem in ALLOWED, f"say in ALLOWED what {path.name} may import"
    assert own_modules(names, "model") <= ALLOWED[path.stem]


def test_the_rule_itself_has_no_cycle() -> None:
    done: set[str] = set()
    while len(done) < len(ALLOWED):
        ready = {name for name, needs in ALLOWED.items() if name not in done and needs <= done}
        assert ready, f"these import each other: {set(ALLOWED) - done}"
        done |= ready


@pytest.mark.parametrize("path", MODEL_FILES + sorted((ROOT / "model").glob("*/*.py")), ids=lambda path: path.stem)
def test_transformers_is_never_imported_at_run_time(path: Path) -> None:
    package = ("tx", "model") if path.parent.name == "model" else ("tx", "model", path.parent.name)
    assert not {name for name in imports(path, package) if name.split(".")[0] == "transformers"}


@pytest.mark.parametrize(
    ("module", "outside"),
    [
        ("errors", set()),
        ("results", set()),
        ("config", set()),
        ("threads", set()),
        ("memory", set()),
        ("places", set()),
        ("pulled", set()),
        ("hub_client", {"huggingface_hub"}),
        ("hub", {"huggingface_hub"}),
        ("sentence_ends", set()),
        ("paragraphs", set()),
        ("segment", set()),
        ("prose", set()),
        ("faithful", {"numpy"}),
        ("tensors", {"numpy"}),
        ("families", set()),
        ("languages", set()),
        ("sentencepiece_text", set()),
        ("sentencepiece_model", set()),
        ("tokenizer_json", {"tokenizers"}),
        ("foreign_tokenizer", set()),
        ("stored_tensors", {"numpy", "torch"}),
        ("convert", {"numpy"}),
        ("tokenizer", {"tokenizers"}),
        ("shortlist", {"numpy"}),
        ("marian_yaml", set()),
        ("marian_weights", {"numpy"}),
        ("marian_folder", set()),
        ("foreign", set()),
        ("checkpoint", {"numpy", "torch", "safetensors"}),
        ("rules", {"numpy"}),
        ("constrained", {"numpy"}),
        ("glossary", set()),
        ("alternatives", set()),
        ("directions", set()),
        ("plans", set()),
        ("outputs", set()),
        ("pair_maps", {"numpy"}),
        ("word_links", set()),
        ("protect", set()),
        ("casing", set()),
        ("generation", {"numpy"}),
        ("numpy_engine", {"numpy"}),
        ("evaluation", {"sacrebleu"}),
        ("answer_scores", set()),
        ("summary_scores", {"rouge_score", "sumy", "numpy"}),
        ("runtime", {"numpy", "torch"}),
        ("matching", {"numpy"}),
        ("spans", {"numpy"}),
        ("span_generation", {"numpy"}),
        ("manual", set()),
        ("span_ends", set()),
        ("answering", {"numpy"}),
        ("summarizing", set()),
        ("attention_maps", {"numpy"}),
        ("alignment", {"numpy"}),
        ("attending", {"numpy"}),
        ("token_places", set()),
    ],
)
def test_light_modules(module: str, outside: set[str]) -> None:
    names = imports(ROOT / "model" / f"{module}.py", ("tx", "model"))
    foreign = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"tx"}
    assert foreign <= outside


@pytest.mark.parametrize("path", CLI_FILES, ids=lambda path: path.stem)
def test_the_command_line_is_light_at_the_top(path: Path) -> None:
    names = imports(path, ("tx", "cli"), top_only=True)
    foreign = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
    allowed = {
        name: {"typer"} for name in ("app", "app_about", "app_bench", "app_evaluate", "app_models", "options", "parser")
    } | {name: {"rich"} for name in ("heatmap", "cells")}
    assert foreign <= {"tx"} | allowed.get(path.stem, set())
    assert own_modules(names, "model") <= FOUNDATION


def loaded_by(code: str) -> list[str]:
    heavy = ("torch", "numpy", "tokenizers", "safetensors", "typer", "rich")
    code += f"\nimport sys; print([m for m in {heavy} if m in sys.modules])"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()


def test_importing_tx_loads_nothing() -> None:
    assert loaded_by("import tx; print(tx.__version__); print(dir(tx))") == [
        "0.1.0",
        "['AttentionMap', 'Translator', '__version__', 'attend', 'translate']",
        "[]",
    ]


def test_the_numpy_engine_loads_nothing_but_numpy() -> None:
    assert loaded_by("import tx.model.numpy_engine, tx.model.generation") == ["['numpy']"]


def test_an_unknown_name_is_an_attribute_error() -> None:
    import tx

    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        tx.nope  # noqa: B018
    assert callable(tx.translate)
    assert tx.Translator.__name__ == "Translator"


def test_no_other_top_level_package_is_installed(tmp_path: Path) -> None:
    code = "import importlib.util as u; print([n for n in ('cli', 'model', 'weights') if u.find_spec(n)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"
