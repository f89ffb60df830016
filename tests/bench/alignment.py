"""How well the attention of the shipped weights aligns words: `python tests/bench/alignment.py`.

Forces each pair of tests/alignment/en-zh.tsv through the model, both ways, and prints the alignment error rate (AER,
Och & Ney 2003), precision and recall of every head, of the mean of each layer and of combinations of both directions,
beside the diagonal. Then, for choosing among so many on 60 pairs flatters: what is chosen on one half, measured on the
other.
"""

from __future__ import annotations

import argparse
import itertools
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tx.model import alignment
from tx.model.alignment import Link, Method, Score
from tx.model.attending import Attender

PAIRS = Path(__file__).parent.parent / "alignment" / "en-zh.tsv"


@dataclass(frozen=True)
class Pair:
    """Two sentences as tokens, and the sure and the possible links (English token, Chinese token); the sure ones are
    not among `possible`."""

    english: tuple[str, ...]
    chinese: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]

    @property
    def texts(self) -> tuple[str, str]:
        return joined(self.english), "".join(self.chinese)


def joined(english: Sequence[str]) -> str:
    """A text of English tokens: a space between them, but none before a mark."""
    return re.sub(r" (?=[.,?!])", "", " ".join(english))


def read_pairs(path: Path = PAIRS) -> list[Pair]:
    """The pairs of a file in the format of tests/alignment/README.md."""
    pairs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        english, chinese, links = line.split("\t")
        found: dict[str, set[Link]] = {"-": set(), "?": set()}
        for link in links.split():
            source, kind, target = re.fullmatch(r"(\d+)([-?])(\d+)", link).groups()  # type: ignore[union-attr]
            found[kind].add((int(source), int(target)))
        pairs.append(Pair(tuple(english.split()), tuple(chinese.split()), frozenset(found["-"]), frozenset(found["?"])))
    return pairs


def places(tokens: Sequence[str], text: str) -> list[tuple[int, int]]:
    """Where the tokens stand in the text that they make up."""
    found, at = [], 0
    for token in tokens:
        start = text.index(token, at)
        at = start + len(token)
        found.append((start, at))
    return found


@dataclass(frozen=True)
class Forced:
    """A pair and its maps: English to Chinese, Chinese to English."""

    pair: Pair
    forward: Any
    backward: Any

    def score(self, direction: str, method: Method) -> Score:
        """Of the links found in one direction ("en-zh", "zh-en"), or in both ("en-zh+", "zh-en+")."""
        english, chinese = map(places, (self.pair.english, self.pair.chinese), self.pair.texts)
        if direction.startswith("en-zh"):
            map_, reverse, words = self.forward, self.backward, (english, chinese)
        else:
            map_, reverse, words = self.backward, self.forward, (chinese, english)
        both = reverse if direction.endswith("+") else None
        links = alignment.align(map_, both, method, source_words=words[0], target_words=words[1])
        if direction.startswith("zh-en"):
            links = [(target, source) for source, target in links]
        return alignment.score(links, self.pair.sure, self.pair.possible)


def force(pairs: Sequence[Pair], model: str | None = None) -> list[Forced]:
    """Each pair put through the model both ways."""
    attender = Attender(model, engine="numpy")
    forced = []
    for pair in pairs:
        english, chinese = pair.texts
        (forward,) = attender.attend(english, target=chinese, source_language="en", target_language="zh")
        (backward,) = attender.attend(chinese, target=english, source_language="zh", target_language="en")
        forced.append(Forced(pair, forward, backward))
    return forced


def diagonal(pair: Pair) -> Score:
    """Each Chinese token with the English token at the same share of its sentence."""
    n, m = len(pair.english), len(pair.chinese)
    links = {(round(j * (n - 1) / max(1, m - 1)), j) for j in range(m)}
    return alignment.score(links, pair.sure, pair.possible)


def total(scores: Sequence[Score]) -> Score:
    return sum(scores, Score())


def candidates(heads: Sequence[tuple[int | None, int | None, bool]]) -> list[Method]:
    """All ways to make links of these heads."""
    thresholds = [i / 20 for i in range(5, 13)]
    found = []
    for (layer, head, fed), renormalise in itertools.product(heads, (False, True)):
        for how in alignment.HOW:
            for threshold in thresholds if how in ("threshold", "geometric") else [0.0]:
                found.append(Method(layer, head, fed, how, threshold, renormalise))
    return found


def say(name: str, score: Score) -> None:
    print(f"{name:<76} {score.error_rate:6.3f} {score.precision:9.3f} {score.recall:6.3f}")


def title(text: str) -> None:
    print(f"\n{text:<76} {'AER':>6} {'precision':>9} {'recall':>6}")


def name(method: Method) -> str:
    layer = "all layers" if method.layer is None else f"layer {method.layer}"
    head = "all heads" if method.head is None else f"head {method.head}"
    threshold = f" {method.threshold:g}" if method.how in ("threshold", "geometric") else ""
    step = "read" if method.fed else "written"
    return f"{layer}, {head}, {step}: {method.how}{threshold}{', renormalised' if method.renormalise else ''}"


def halves(
    methods: Sequence[Method], scores: dict[Method, list[Score]], rounds: int, seed: int = 1
) -> tuple[float, float, Callable[[Method], float]]:
    """The mean error rate of the best method of one half on that half and on the other, and of a given method on the
    other halves."""
    rng = random.Random(seed)
    n = len(next(iter(scores.values())))
    chosen, held, others = [], [], []
    for _ in range(rounds):
        order = rng.sample(range(n), n)
        one, other = order[: n // 2], order[n // 2 :]
        rate = {m: total([scores[m][i] for i in one]).error_rate for m in methods}
        best = min(methods, key=rate.__getitem__)
        chosen.append(rate[best])
        held.append(total([scores[best][i] for i in other]).error_rate)
        others.append(other)

    def fixed(method: Method) -> float:
        return sum(total([scores[method][i] for i in other]).error_rate for other in others) / rounds

    return sum(chosen) / rounds, sum(held) / rounds, fixed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="name or path (default: the default model)")
    parser.add_argument("--rounds", type=int, default=200, help="how often the set is halved")
    options = parser.parse_args()

    forced = force(read_pairs(), options.model)
    n_layers, n_heads = forced[0].forward.cross.shape[:2]
    default = alignment.default_method(n_layers, n_heads)
    print(f"{len(forced)} pairs, {forced[0].forward.model}, {n_layers} layers of {n_heads} heads")
    title("baseline")
    say("diagonal", total([diagonal(f.pair) for f in forced]))

    rates: dict[tuple[int | None, int | None, bool], float] = {}
    for direction in ("en-zh", "zh-en"):
        title(f"{direction}: of each target word the best source word")
        for fed, layer in itertools.product((False, True), [*range(1, n_layers + 1), None]):
            for head in [*range(1, n_heads + 1), None] if layer else [None]:
                method = Method(layer, head, fed, "argmax", renormalise=True)
                found = total([f.score(direction, method) for f in forced])
                rates[layer, head, fed] = rates.get((layer, head, fed), 0.0) + found.error_rate / 2
                say(name(method), found)

    heads = sorted(rates, key=rates.__getitem__)[:3]
    methods = candidates(heads)
    for direction in ("en-zh", "zh-en", "en-zh+"):
        both = direction.endswith("+")
        tried = [m for m in methods if both or m.how in ("threshold", "argmax", "mutual")]
        scores = {m: [f.score(direction, m) for f in forced] for m in {*tried, default}}
        title("both directions together" if both else f"{direction} alone")
        say("default: " + name(default), total(scores[default]))
        for method in sorted(tried, key=lambda m: total(scores[m]).error_rate)[:5]:
            say(name(method), total(scores[method]))
        if both:
            for how in alignment.HOW:
                method = min((m for m in tried if m.how == how), key=lambda m: total(scores[m]).error_rate)
                say(f"best of {how}: " + name(method), total(scores[method]))
        best, held, fixed = halves(tried, scores, options.rounds)
        print(f"chosen on one half of the set {best:.3f}, on the other half {held:.3f}; the default on that", end=" ")
        print(f"{fixed(default):.3f} (means of {options.rounds} rounds)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
