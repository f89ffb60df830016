"""`tx models check`: whether a model is whole, and what it makes of a sentence."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..model.config import AllPairs, Task
from ..model.errors import CheckpointError
from .model_words import Rows, plain, sentence_for
from .models import name_of, open_model
from .text_io import ExitStatus, Output

if TYPE_CHECKING:
    from ..model.checkpoint import Checkpoint
    from ..model.runtime import Runtime

TRIED = 3  # directions that `check` translates in
TRIED_FIRST = (("en", "zh"), ("en", "fr"), ("en", "de"), ("zh", "en"))  # of the many that some models have
QUESTION = ("Anna met Bob at the old bridge. They had tea there.", "Where did Anna meet Bob?")
TEXT = "The old bridge was closed on Monday. It will open again in May, when the repairs are done."


def check(model: str) -> ExitStatus:
    """Files, weights, a forward pass and some output; raises TxError for the first thing that is wrong."""
    from ..model.pulled import check_pulled
    from ..model.threads import blas_threads

    with Output(None) as out, blas_threads(None):
        runtime = open_model(model)
        out.write(f"{name_of(model, runtime.path)}: {runtime.path}\n")
        folder = runtime.path if runtime.path.is_dir() else runtime.path.parent
        pulled = check_pulled(folder)
        checkpoint = runtime.checkpoint
        checkpoint.verify()
        own = (folder / "manifest.json").is_file()
        files = (
            "as the manifest says" if own else f"{pulled} as the hub stated" if pulled else "no checksums to compare"
        )
        out.write(Rows([("files", files), *(("note", plain(note)) for note in checkpoint.notes)]).text())
        tensors, values = _check_finite(checkpoint)
        out.write(Rows([("weights", f"{values:,} values in {tensors} tensors, all of them finite")]).text())
        gc.enable()
        pieces = _check_forward(runtime)
        out.write(Rows([("forward", f"a number for each of {pieces:,} pieces, in NumPy")]).text())
        tried = _tried(checkpoint.config.tasks)
        if not tried:
            raise CheckpointError(f"{runtime.path} has no task that tx knows: nothing could be tried with it")
        outputs = []
        for name, task in tried:
            given, output, end = _try(runtime, name, task)
            out.write(Rows([(_label(name, task), f"{given} {output or '(nothing)'}{end}")]).text())
            outputs.append(output)
        out.write("  ok\n" if any(outputs) else "  whole, but it wrote nothing\n")
    return ExitStatus.OK


def _check_finite(checkpoint: Checkpoint) -> tuple[int, int]:
    """How many tensors and values there are. Raises CheckpointError for the first tensor that has another than a number."""
    import numpy as np

    values = 0
    for name, tensor in checkpoint.tensors.items():
        array = np.asarray(tensor)
        if not np.isfinite(array).all():
            raise CheckpointError(f"{checkpoint.path}: tensor {name} has values that are not finite")
        values += array.size
    return len(checkpoint.tensors), values


def _check_forward(runtime: Runtime) -> int:
    """Encodes a sentence and decodes the first piece; gives how many pieces there are to choose from."""
    import numpy as np

    checkpoint = runtime.checkpoint
    config = checkpoint.config
    task = next((task for _, task in _tried(config.tasks)), Task())
    source = [*task.src_prefix, *_fitting(checkpoint, task, sentence_for("en")), config.special.eos, *task.src_suffix]
    stepper: Any = runtime.stepper(len(source))
    with np.errstate(all="ignore"):  # what is no number is said below
        state = stepper.start([source], 1)
        for piece in task.tgt_prefix or (config.special.decoder_start,):
            scores = stepper.step(np.array([piece], np.int64), state)
    if np.isnan(scores).any() or not np.isfinite(scores.max()):
        raise CheckpointError(f"{checkpoint.path}: a forward pass gives values that are not numbers")
    return int(scores.shape[-1])


def _fitting(checkpoint: Checkpoint, task: Task, text: str) -> list[int]:
    """The pieces of a text, as many as the model has places for."""
    model = checkpoint.config.model
    ids = checkpoint.tokenizer.encode(text)
    around = len(task.src_prefix) + 1 + len(task.src_suffix)
    return ids[: max(1, model.max_positions - around)] if model.positions == "learned" else ids


def _tried(tasks: Mapping[str, Task]) -> list[tuple[str, Task]]:
    """A few directions, those that most can judge first, then those from languages that there is a sentence in, and
    everything else."""
    from ..model.languages import pairs

    directions = pairs(tasks)
    first = [pair for pair in TRIED_FIRST if pair in directions]
    others = sorted((pair for pair in directions if pair not in first), key=lambda pair: not sentence_for(pair[0]))
    names = [directions[pair] for pair in (first + others)[:TRIED]]
    if not isinstance(tasks, AllPairs):
        names += [name for name in tasks if not name.startswith("translate:")]
    return [(name, tasks[name]) for name in names]


def _label(name: str, task: Task) -> str:
    return f"{task.source or 'any'} → {task.target}" if name.startswith("translate:") else name


def _try(runtime: Runtime, name: str, task: Task) -> tuple[str, str, str]:
    """A sentence, for answers a question; what the model makes of it, greedily; and what is to be said of that."""
    if name == "answer":
        from ..model.answering import Answerer

        text, question = QUESTION
        ((answer, *_),) = Answerer(runtime).answer(text, [question], threshold=-1e9)
        return question, plain(answer.text).strip(), ""
    from ..model.runtime import with_beam

    text = TEXT if name == "summarize" else sentence_for(task.source) or sentence_for("en")
    checkpoint = runtime.checkpoint
    job = (name, tuple(_fitting(checkpoint, task, text)))
    search = with_beam(checkpoint.config.generation, 1)
    hypothesis = runtime.generate([job], search, 1)[job]
    decoder = getattr(checkpoint, "target_tokenizer", checkpoint.tokenizer)
    output = plain(decoder.decode(hypothesis.ids)).strip()
    return f"{text} →", output, "" if hypothesis.finished else " (cut)"
