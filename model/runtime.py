"""A model and the engine that computes with it: what all the tasks share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import memory
from .checkpoint import Checkpoint, load_checkpoint, load_transformer, resolve_model
from .config import GenerationConfig, Task
from .errors import CheckpointError, ConfigError, InputError, TxError, UsageError
from .threads import blas_threads, cores, patient_threads

if TYPE_CHECKING:
    from .generation import LogitsRule
    from .numpy_engine import NumpyStepper
    from .results import Hypothesis
    from .shortlist import Ids
    from .torch_engine import TorchStepper

ENGINES = ("auto", "numpy", "torch")
PRECISIONS = ("fp32", "bf16", "int8", "auto")
# The work (source pieces of all segments that wait, times beams) from which on PyTorch, which takes seconds to import, may
# be done sooner than NumPy, and the cores that it needs for that: with two, NumPy on one of them lost nothing to it in
# 54,000 pieces (tests/bench/crossover.py).
TORCH_FROM = 20_000
TORCH_CORES = 4
TORCH_MEMORY = 1 << 30  # bytes: with less, NumPy, which takes a few hundred MB less, is the better choice
# How many sentences are searched together: more make larger matrices, and take longer before the first one is out.
BATCH = 32
TORCH_ROWS = 128  # of all beams
SHOWN = 40  # characters of a sentence for which there is too little memory
MAX_THREADS = 4  # of PyTorch; matrices this small gain nothing from more

# What a model that lacks a task was not trained to do, and what one that has it does.
TASKS = {"summarize": ("sum up", "sums up"), "answer": ("find answers in a text", "answers questions")}

Job = tuple[str, tuple[int, ...]]  # a task's name and the source pieces of one segment; equal jobs are done once


class Runtime:
    """A model and the engine that computes with it. The files are opened by the first thing that needs them.

    `model` is the name of an installed model or a path (None: the environment's TX_MODEL, else "en-zh").

    `engine` "numpy" starts at once, "torch" takes seconds to import; "auto" begins with NumPy and changes to PyTorch, for
    good, when a call brings work that is worth it and there are cores for it. The results are the same but for rounding:
    where two continuations are as good as equal, either may win. A `device` other than "cpu" means PyTorch.

    `threads` is how many cores are used, by PyTorch as a setting of the whole process. By default PyTorch uses at most
    four and NumPy one: for a few sentences a second one gains nothing, and waiting for it costs much where it is busy.
    NumPy's number is settled when it is first imported; a program that has done so before has to set
    OPENBLAS_NUM_THREADS (or whatever its NumPy looks for) itself.

    `precision` is what PyTorch multiplies matrices in: fp32; int8 or bf16, which are faster where the processor has
    instructions for them, but round so coarsely that many a longer sentence comes out in other words, and a few in others
    again when other sentences share their batch; "auto" is bf16 on processors that do it in hardware (see module precision),
    else fp32. NumPy computes in fp32 only.

    `shortlist` lets the outputs hold only the pieces that the model's shortlist gives for the sources of a batch: faster,
    and sometimes another word. Few models have one.

    `max_memory` is how many bytes the process, or all that share the work (`prepare`), should take at most: batches are
    made as small as that asks for. Without it a batch takes one GB at most, or what a single text takes.
    """

    def __init__(
        self,
        model: str | Path | None = None,
        *,
        device: str = "cpu",
        threads: int | None = None,
        engine: str = "auto",
        shortlist: bool = False,
        max_memory: int | None = None,
        precision: str = "fp32",
    ) -> None:
        if threads is not None:
            check_whole("threads", threads)
        if engine not in ENGINES:
            raise UsageError(f"engine must be one of {', '.join(ENGINES)}, not {engine!r}")
        if engine == "numpy" and device != "cpu":
            raise UsageError(f"the engine numpy computes on the cpu, not on {device!r}: use torch for that")
        if precision not in PRECISIONS:
            raise UsageError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")
        if precision != "fp32":
            if engine == "numpy":
                raise UsageError(f"the engine numpy computes in fp32, not in {precision}: use torch for that")
            engine = "torch"
        self.precision = precision
        self.path = resolve_model(model)
        self.device, self.threads, self.shortlist, self.max_memory = device, threads, shortlist, max_memory
        self._processes = 1  # that share the work: see `prepare`
        self._rooms: dict[str, int] = {}  # see `_room`; for each engine
        self._wanted = engine if device == "cpu" else "torch"

    @property
    def engine(self) -> str:
        """The engine that computes, "numpy" or "torch"; until something is computed, the one that was asked for."""
        made = [name for name in ("torch", "numpy") if f"_{name}_stepper" in vars(self)]
        return made[0] if made else self._wanted

    @functools.cached_property
    def checkpoint(self) -> Checkpoint:
        with blas_threads(self.threads):  # a foreign format may need NumPy
            return load_checkpoint(self.path, wait=False)

    def task(self, name: str) -> Task:
        """How the model is put to a task of this name. Raises CheckpointError if it is not; that says what it does."""
        tasks = self.checkpoint.config.tasks
        if name in tasks:
            return tasks[name]
        from .languages import offer, pairs

        does = [does for other, (_, does) in TASKS.items() if other in tasks]
        if found := pairs(tasks):
            does.insert(0, f"translates {offer(found)}" if ("", "") not in found else "translates")
        says = f"; it {' and '.join(does)}" if does else ""
        raise CheckpointError(f"the model {self.path.name} was not trained to {TASKS[name][0]}{says}")

    def stepper(self, work: int, more: bool = False) -> NumpyStepper | TorchStepper:
        """The engine for this much work (see TORCH_FROM), or with `more` for work without end."""
        n_cores = min(cores(), self.threads or MAX_THREADS)
        little = (work < TORCH_FROM and not more) or n_cores < TORCH_CORES
        little = little or (self.max_memory is not None and self.max_memory < TORCH_MEMORY)
        if self._wanted == "numpy" or (self._wanted == "auto" and self.engine != "torch" and little):
            return self._numpy_stepper
        stepper = self._torch_stepper
        vars(self).pop("_numpy_stepper", None)  # its memory
        return stepper

    def prepare(self, processes: int) -> None:
        """Loads, checks and converts the weights, for so many processes that are forked afterwards and share them, and
        chooses the engine for work without end on a share of the cores. Leaves no thread behind, for a process that is
        forked has none of them and would wait for it for ever. Each process has to call `begin`. Raises UsageError for a
        device whose memory they could not share."""
        if self.device != "cpu":
            raise UsageError(f"several processes (--jobs) share the cpu, not {self.device}: leave out one of the two")
        share = self.threads or min(MAX_THREADS, max(1, cores() // processes))
        self.checkpoint.verify()
        if self._wanted == "torch" or (
            self._wanted == "auto" and share >= TORCH_CORES and (self.max_memory or TORCH_MEMORY) >= TORCH_MEMORY
        ):
            self._wanted, self.threads = "torch", 1
        else:
            self._wanted, share = "numpy", self.threads or 1
        self._processes = processes
        self._use_all()
        if self.max_memory is not None:
            self._room()  # is measured here, once for all
        self.threads = share

    def precision_used(self) -> str:
        """The precision that is computed in. Where that is left to the processor ("auto"), the engine is made to know it."""
        if self.precision != "auto":
            return self.precision
        import torch

        (first, *_) = self._torch_stepper.model.parameters()
        return "bf16" if first.dtype == torch.bfloat16 else "fp32"

    def batches(self, jobs: Sequence[Job], most: int, search: GenerationConfig, beams: int) -> Iterator[slice]:
        """Where jobs of one task, the shortest first, are to be parted for batches of up to `most` that fit into the memory
        that may be taken. Raises TxError where not even one does."""

        @functools.cache
        def cost(source: int) -> int:
            return memory.of_search(config.model, source, before + search.length_limit(source), beams)

        config, task = self.checkpoint.config, self.checkpoint.config.tasks[jobs[0][0]]
        around, before = len(task.src_prefix) + 1 + len(task.src_suffix), len(task.tgt_prefix) or 1
        room = memory.USUAL if self.max_memory is None else self._room()
        for part in memory.batches([cost(around + len(ids)) for _, ids in jobs], most, room):
            longest = around + len(jobs[part.stop - 1][1])
            if self.max_memory is not None and cost(longest) > room:
                needed = memory.said(self.max_memory + (cost(longest) - room) * self._processes)
                text = self.checkpoint.tokenizer.decode(jobs[part.stop - 1][1]).strip()
                text = f"{text[:SHOWN]}…" if len(text) > SHOWN else text
                raise TxError(
                    f"a sentence of {longest} pieces, {text!r}, with {beams} hypotheses at a time needs {needed} in all: "
                    f"more than the {memory.said(self.max_memory)} of --max-memory"
                )
            yield part

    def _room(self) -> int:
        """The bytes that the search may take at a time under `max_memory`, next to all else. Raises TxError if there are
        none."""
        assert self.max_memory is not None
        if self.engine not in self._rooms:
            memory.give_back_what_is_freed()
            self._use_all()
            taken = memory.in_use() + memory.SPARE * self._processes
            if taken > self.max_memory:
                raise TxError(
                    f"the model {self.path.name} alone needs {memory.said(taken)}: more than the "
                    f"{memory.said(self.max_memory)} of --max-memory"
                )
            self._rooms[self.engine] = (self.max_memory - taken) // self._processes
        return self._rooms[self.engine]

    def _use_all(self) -> None:
        """Takes one step with the engine, which reads and converts every tensor."""
        stepper = self.stepper(0)
        import numpy as np

        special = self.checkpoint.config.special
        state: Any = stepper.start([[special.eos]], 1)
        stepper.step(np.array([special.decoder_start]), state)

    def begin(self) -> None:
        """What a process that was forked after `prepare` has to do before anything else."""
        if self._wanted == "torch":
            import torch

            torch.set_num_threads(self.threads or 1)

    @functools.cached_property
    def _numpy_stepper(self) -> NumpyStepper:
        with blas_threads(self.threads):
            from .numpy_engine import NumpyStepper, NumpyTransformer

        checkpoint = self.checkpoint
        model = NumpyTransformer(checkpoint.config.model, checkpoint.tensors)
        return NumpyStepper(model, checkpoint.config.special.pad, self._candidates)

    @functools.cached_property
    def _torch_stepper(self) -> TorchStepper:
        with patient_threads():
            import torch

        from .torch_engine import TorchStepper

        try:
            # An empty tensor is the one sure way to learn whether a device is there.
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"no device {self.device!r} on this machine; use cpu") from error
        torch.set_num_threads(self.threads or min(MAX_THREADS, torch.get_num_threads()))
        from .precision import prepare

        model = prepare(load_transformer(self.checkpoint, self.device), self.precision, self.checkpoint.input_limits)
        return TorchStepper(model, self.checkpoint.config.special.pad, self._candidates)

    @functools.cached_property
    def _candidates(self) -> Callable[[Sequence[Sequence[int]]], Ids] | None:
        """The ids that the outputs for a batch of sources may hold; None: all."""
        if not self.shortlist:
            return None
        checkpoint = self.checkpoint
        if checkpoint.shortlist is None:
            raise UsageError(f"the model {self.path.name} has no shortlist: leave that out")
        from .shortlist import read

        one = checkpoint.tokenizer is checkpoint.target_tokenizer
        found = read(checkpoint.shortlist, checkpoint.target_tokenizer.vocab_size, shared=one)
        return lambda src: found.candidates(src, [checkpoint.config.special.eos])

    def generate(
        self,
        jobs: Iterable[Job],
        search: GenerationConfig,
        batch_size: int | None,
        more: bool = False,
        rules: Callable[[Sequence[Sequence[int]]], Sequence[LogitsRule]] = lambda src: (),
    ) -> dict[Job, Hypothesis]:
        """The best hypothesis for each job; jobs of like length share a batch, so that little of it is padding.

        `rules` makes the rules of the search for a batch of sources."""
        return {job: found[0] for job, found in self.n_best(jobs, search, batch_size, more, rules).items()}

    def n_best(
        self,
        jobs: Iterable[Job],
        search: GenerationConfig,
        batch_size: int | None,
        more: bool = False,
        rules: Callable[[Sequence[Sequence[int]]], Sequence[LogitsRule]] = lambda src: (),
        n_best: int = 1,
        apart: Callable[[Sequence[int]], bool] = lambda ids: False,
    ) -> dict[Job, list[Hypothesis]]:
        """As `generate`, but up to `n_best` hypotheses for each job, best first. Jobs with pieces for which `apart` is true do
        not share a batch with others, whose rules may be simpler."""
        with blas_threads(self.threads):
            import numpy as np

            from .generation import generate

        config = self.checkpoint.config
        outputs: dict[Job, list[Hypothesis]] = {}
        order = {name: i for i, name in enumerate(config.tasks)}
        ordered = sorted(set(jobs), key=lambda job: (order[job[0]], len(job[1])))
        beams = max(search.beam_size, n_best)
        stepper = self.stepper(sum(len(ids) for _, ids in ordered) * beams, more)
        if batch_size is None:
            batch_size = BATCH if stepper is vars(self).get("_numpy_stepper") else max(BATCH, TORCH_ROWS // beams)
        groups: dict[tuple[str, bool], list[Job]] = {}
        for job in ordered:
            groups.setdefault((job[0], apart(job[1])), []).append(job)
        for (name, _), todo in groups.items():
            task = config.tasks[name]
            prefix = task.tgt_prefix or (config.special.decoder_start,)
            if config.model.positions == "learned":
                most = max(1, config.model.max_positions - len(prefix))
                search = dataclasses.replace(search, max_length=min(search.max_length, most))
            for part in self.batches(todo, batch_size, search, beams):
                batch = todo[part]
                src = [[*task.src_prefix, *ids, config.special.eos, *task.src_suffix] for _, ids in batch]
                with np.errstate(all="ignore"):  # what is no number is found, and said, by the search
                    found = generate(
                        stepper,
                        src,
                        config=search,
                        special=config.special,
                        prefix=prefix,
                        n_best=n_best,
                        rules=rules(src),
                    )
                outputs.update(zip(batch, found, strict=True))
        return outputs


def with_beam(search: GenerationConfig, beam_size: int | None) -> GenerationConfig:
    """The settings with this beam, if there is one. Raises UsageError for one out of range."""
    if beam_size is None:
        return search
    check_whole("beam_size", beam_size)
    try:
        return dataclasses.replace(search, beam_size=beam_size)
    except ConfigError as error:
        raise UsageError(str(error)) from error


def check_whole(name: str, value: int) -> None:
    """Raises UsageError for anything but a whole number from 1 on."""
    if type(value) is not int or value < 1:
        raise UsageError(f"{name} must be a whole number from 1 on, not {value!r}")


def check_text(name: str, text: object) -> None:
    """Raises UsageError for what is no string, InputError for one with a part of a character that UTF-8 cannot hold."""
    if not isinstance(text, str):
        raise UsageError(f"{name} must be a string, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{name} has a lone surrogate at character {error.start + 1}: not Unicode") from None
