"""`tx bench`: its options and its help, as app.py has those of the others."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options as o
from .options import Text, Texts

Engines = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="numpy, torch or both.",
        autocompletion=lambda: ["numpy", "torch", "both"],
    ),
]
Precision = Annotated[
    Texts,
    typer.Option("--precision", metavar="NAME", help="Numbers that torch computes with; may be repeated."),
]
BatchSizes = Annotated[
    Texts,
    typer.Option("--batch-size", metavar="N", help="Segments computed at once; may be repeated (default: 8 and 32)."),
]
Count = Annotated[
    Text,
    typer.Option("--sentences", metavar="N", help="So many sentences (default: what half a minute is enough for)."),
]
Rounds = Annotated[Text, typer.Option("--rounds", metavar="N", help="How often all is measured (default: 5).")]
File = Annotated[
    Text, typer.Option("--file", metavar="FILE", help="Your own sentences, one a line; - is the standard input.")
]
Against = Annotated[
    Texts,
    typer.Option(
        "--against",
        metavar="NAME",
        help="transformers, ctranslate2 or slimt beside tx; may be repeated.",
        autocompletion=lambda: ["transformers", "ctranslate2", "slimt"],
    ),
]
PeerPython = Annotated[
    Texts,
    typer.Option("--peer-python", metavar="PATH", help="A Python that has one of those; may be repeated."),
]
Jobs = Annotated[
    Text,
    typer.Option(
        "--jobs", metavar="N", help="Time tx translate -i FILE --jobs N too, and without (--engine both: auto)."
    ),
]


def bench(
    model: o.Model = None,
    source: o.From = None,
    target: o.To = None,
    engine: Engines = "both",
    precision: Precision = None,
    batch_size: BatchSizes = None,
    beam: o.Beam = None,
    sentences: Count = None,
    rounds: Rounds = None,
    file: File = None,
    against: Against = None,
    peer_python: PeerPython = None,
    jobs: Jobs = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    encoding: o.Encoding = "utf-8",
    threads: o.Threads = None,
    device: o.Device = "cpu",
    debug: o.Debug = False,
) -> int:
    """Measures tx on this machine, and others beside it.

    \b
    Examples:
      tx bench
      tx bench --beam 1 --batch-size 32 --batch-size 128
      tx bench --file corpus.txt --sentences 500 --json > bench.json
      tx bench --against transformers --against ctranslate2
      tx bench --model ./enpt --against slimt --peer-python ~/peers/bin/python

    How long one sentence takes, from a cold process and with the model loaded; how many sentences and pieces (written, by
    this model's vocabulary) a second in batches; and the most memory of each. Everything is done in rounds, one thing after
    the other, so that whatever disturbs the machine disturbs all alike: medians and quartiles are given. A minute or so; run
    it when nothing else runs, for a load average above 0.3 for each core shows in every figure, and is warned of.

    With --against the same model runs there, in turn with tx at its best: a folder of Marian (OPUS-MT) as it is, and one
    of Firefox or Bergamot in slimt, greedily and with the shortlist on both sides. Models of our own format have parts that no
    other program knows: a random one of Marian's shape and the same sizes takes the place, on all sides, and every output
    has as many pieces as the model's have on average. What the outputs have in common is said: the share that is equal, and chrF (with the extra
    "eval"). Ratios are of the rounds: 2 means that tx takes half the time. The time of their tokenizers counts; the
    ratio without it is in --json.

    \b
    What --json prints, one object:
      machine     processor, cores, instructions, load_average, versions
      model, settings    what was measured, with how many sentences
      start_up    seconds of whole commands, for one sentence, with the
                  --engine, and the --precision if it is one
      latency     seconds of one sentence with the model loaded, and p90
      throughput  for each engine, precision and batch size: seconds,
                  sentences_per_second, pieces_per_second, peak_bytes
      command     with --jobs: lines_per_second of whole commands
      against     for each translator: version, how it was run, the same
                  figures, ratio, equal (0 to 1), chrf (0 to 100)

    Figures of several rounds have a median, quartiles and values.
    """
    from . import bench as command

    return command.bench(
        model=model,
        source=source,
        target=target,
        engine=engine,
        precisions=list(precision or ()),
        batch_sizes=list(batch_size or ()),
        beam=beam,
        sentences=sentences,
        rounds=rounds,
        file=file,
        against=list(against or ()),
        peer_pythons=list(peer_python or ()),
        jobs=jobs,
        as_json=as_json,
        quiet=quiet,
        encoding=encoding,
        threads=threads,
        device=device,
    )
