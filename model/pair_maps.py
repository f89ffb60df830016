"""Attention maps of pairs that are there already: one forced pass over a source and an output."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from .errors import InputError, TxError
from .results import AttentionMap, Hypothesis, Token
from .runtime import Job, Runtime
from .token_places import as_printed, text_and_tokens, with_kept

START = "<s>"


class PairMaps:
    """Makes the maps that a model has of pairs."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def forced(self, target: str, task: str) -> Hypothesis:
        """The output that says `target`."""
        checkpoint = self.runtime.checkpoint
        config, ids = checkpoint.config, checkpoint.target_tokenizer.encode(target.strip())
        most = config.generation.max_length - 1  # and the end piece
        if config.model.positions == "learned":
            most = min(most, config.model.max_positions - max(1, len(config.tasks[task].tgt_prefix)))
        if not ids or len(ids) > most:
            raise InputError(f"the given target has {len(ids)} pieces: it must have 1 to {most}")
        return Hypothesis(tuple(ids), 0.0, 0.0)

    def written(self, job: Job, best: Hypothesis, more_flags: set[str]) -> AttentionMap:
        """The map of an output that was written for a source."""
        checkpoint = self.runtime.checkpoint
        task, special = checkpoint.config.tasks[job[0]], checkpoint.config.special
        if not best.ids and not best.finished:
            raise InputError("the model found nothing that it may write for this text: there is no map of it")
        source, pieces = text_and_tokens(checkpoint.tokenizer, job[1])
        output, written = as_printed(*text_and_tokens(checkpoint.target_tokenizer, best.ids))
        prefix = task.tgt_prefix or (special.decoder_start,)
        # Every piece was written when those before it had been read; without an end piece nothing has read the last.
        read = len(best.ids) if best.finished else len(best.ids) - 1
        flags = {"looped": best.looped, "cut": not best.finished and not best.looped, "copied": not output}
        return self.map(
            (job[0], source, output),
            ([*task.src_prefix, *job[1], special.eos, *task.src_suffix], [*prefix, *best.ids[:read]], None),
            (
                [
                    *self.special(task.src_prefix, 0),
                    *pieces,
                    *self.special([special.eos, *task.src_suffix], len(source)),
                ],
                [*written, *(self.special([special.eos], len(output), "target") if best.finished else [])],
                [*self.special(prefix, 0, "target"), *written[:read]],
            ),
            [*more_flags, *(flag for flag, holds in flags.items() if holds)],
        )

    def special(self, ids: Sequence[int], at: int, side: str = "source") -> list[Token]:
        """Pieces around a text, as they stand at character `at` of it."""
        checkpoint = self.runtime.checkpoint
        tokenizer = checkpoint.tokenizer if side == "source" else checkpoint.target_tokenizer
        # A decoder that starts with zeros is fed a piece that no vocabulary has.
        names = [tokenizer.pieces([i])[0] if i < tokenizer.vocab_size else START for i in ids]
        return [Token(name, at, at, special=True) for name in names]

    def map(
        self,
        texts: tuple[str, str, str],
        ids: tuple[Sequence[int], Sequence[int], Any],
        tokens: tuple[Sequence[Token], Sequence[Token], Sequence[Token]],
        flags: Sequence[str],
        offset: int = 0,
    ) -> AttentionMap:
        """The map of one pass. texts: task, source, output; ids: src, fed, and the kinds of src; tokens: src, tgt, fed."""
        engine = self.runtime.stepper(0)  # the one that searched, if anything did
        import numpy as np

        (src, tgt, fed), (task, source, output) = map(tuple, tokens), texts
        with np.errstate(all="ignore"):
            found = engine.attentions(*ids)
        encoder, decoder, cross = (np.concatenate(layers) if layers else None for layers in found)
        if not all(np.isfinite(w).all() for w in (encoder, decoder, cross) if w is not None):
            raise TxError("the model's attention is no number: its weights are damaged or do not fit its configuration")
        rows = slice(len(fed) - len(tgt), None)  # before the last piece of a prefix nothing is written
        config = self.runtime.checkpoint.config
        return AttentionMap(
            model=config.name or self.runtime.path.name,
            task=task,
            source=source,
            output=output,
            src=src,
            tgt=tgt,
            fed=fed,
            encoder=encoder,
            decoder=None if decoder is None else decoder[:, :, rows],
            cross=None if cross is None else cross[:, :, rows],
            offset=offset,
            flags=tuple(sorted(set(flags))),
        )


def with_kept_map(map: AttentionMap, kept: Sequence[str]) -> AttentionMap:
    """The map with what the slots of its texts stand for."""
    if not kept:
        return map
    source, src = with_kept(map.source, map.src, kept)
    output, tgt = with_kept(map.output, map.tgt, kept)
    _, fed = with_kept(map.output, map.fed, kept)
    return dataclasses.replace(map, source=source, output=output, src=tuple(src), tgt=tuple(tgt), fed=tuple(fed))
