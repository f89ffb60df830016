"""What must come through unchanged comes through the shipped weights: numbers, addresses, versions, placeholders, emoji."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest

from tx.model import protect
from tx.model.pipeline import Translator

ENGLISH = (
    "The parcel weighs {number} grams and costs {price}.",
    "Please pay {price} before {date}.",
    "Version {version} fixes the problem with {file}.",
    "You can download it from {url} for free.",
    "If you need help, write to {mail} or call {phone}.",
    "Dear {place}, your order {code} has been sent.",
    "We found {place} errors in {place2} files.",
    "The answer is {long}.",
    "Open {file} and change the value to {number}.",
    "The train leaves at {time} and arrives at {time2}.",
    "Run {option} if the server at {address} does not answer.",
    "Only {percent} of the {number} people agreed.",
    "My brother was born on {date}, and I was born in {year}.",
    "Happy birthday! {emoji} I have a present for you.",
    "Click {tag}here{tag2} to read page {number}.",
    "{name} said that {code} is not ready.",
    "In {year}, {number} children went to this school.",
    "The temperature fell to {degrees} last night.",
    "What does {variable} mean in {file}?",
    "From {year} to {year2} she lived in a small house.",
)
CHINESE = (
    "这本书有{number}页，价格是{price}。",
    "请在{date}之前付款{price}。",
    "你可以从{url}下载{version}版本。",
    "有问题请写信给{mail}，或者打电话{phone}。",
    "我的电话号码是{long}。",
    "打开{file}，把数值改成{number}。",
    "火车{time}出发，{time2}到达。",
    "只有{percent}的人同意。",
    "他出生于{year}年，今年有{number}个孩子。",
    "生日快乐！{emoji}我有礼物给你。",
)
WORDS = ("report", "river", "notes", "photo", "old_data", "backup-2", "menu")


def digits(rng: random.Random, low: int, high: int) -> str:
    return rng.choice("123456789") + "".join(rng.choices(string.digits, k=rng.randint(low, high) - 1))


FILLERS: dict[str, Callable[[random.Random], str]] = {
    "number": lambda r: r.choice((digits(r, 2, 7), f"{int(digits(r, 4, 8)):,}", f"{digits(r, 1, 3)}.{digits(r, 1, 3)}")),
    "long": lambda r: digits(r, 25, 40),
    "price": lambda r: r.choice("$€£¥") + r.choice((digits(r, 1, 4), f"{digits(r, 1, 3)}.{digits(r, 2, 2)}")),
    "date": lambda r: f"{r.randint(1950, 2030)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}",
    "year": lambda r: str(r.randint(1500, 1950)),
    "year2": lambda r: str(r.randint(1951, 2050)),
    "version": lambda r: r.choice(("", "v")) + f"{r.randint(0, 30)}.{r.randint(0, 30)}.{r.randint(0, 99)}",
    "file": lambda r: r.choice(WORDS) + r.choice((".txt", ".json", ".tar.gz", ".py")),
    "url": lambda r: f"https://{r.choice(WORDS[:3])}.example.org/{r.choice(WORDS)}?id={digits(r, 1, 6)}#top",
    "mail": lambda r: f"{r.choice(WORDS[:3])}.{digits(r, 1, 3)}@mail.example.com",
    "phone": lambda r: f"+{digits(r, 2, 2)} {digits(r, 3, 3)}-{digits(r, 4, 4)}-{digits(r, 4, 4)}",
    "place": lambda r: r.choice(("{name}", "{0}", "%s", "%(user)s", "${USER}", "%1$d")),
    "place2": lambda r: r.choice(("{count}", "{1}", "%d", "%5.2f")),
    "code": lambda r: r.choice(("AB", "Q", "x")) + digits(r, 2, 6),
    "time": lambda r: f"{r.randint(0, 11)}:{r.randint(0, 59):02}",
    "time2": lambda r: f"{r.randint(12, 23)}:{r.randint(0, 59):02}",
    "option": lambda r: r.choice(("--force", "--log-level=3", "`make test`", "restart_all()")),
    "address": lambda r: f"192.168.{r.randint(0, 255)}.{r.randint(1, 254)}:{r.randint(1024, 9999)}",
    "percent": lambda r: f"{r.randint(1, 99)}%",
    "emoji": lambda r: r.choice(("🎂", "👍🏽", "👩‍👩‍👧", "🇨🇳", "❤️")),
    "tag": lambda r: '<a href="page.html">',
    "tag2": lambda r: "</a>",
    "name": lambda r: r.choice(("@anna_k", "getUserName", "node.js")),
    "degrees": lambda r: f"-{r.randint(1, 40)}°C",
    "variable": lambda r: r.choice(("$HOME", "max_size", "std::vector", "C++")),
}  # fmt: skip


def sentences(frames: tuple[str, ...], rounds: int, seed: int) -> list[tuple[str, list[str]]]:
    """Sentences, and what each has that must be in its translation."""
    rng, made = random.Random(seed), []
    for frame in frames * rounds:
        values = {name: fill(rng) for name, fill in FILLERS.items() if f"{{{name}}}" in frame}
        made.append((frame.format(**values), list(values.values())))
    return made


def check(rounds: int, model: Path) -> None:
    translator = Translator(model)
    for frames, source in ((ENGLISH, "en"), (CHINESE, "zh")):
        made = sentences(frames, rounds, seed=rounds)
        results = translator.translate([text for text, _ in made], source=source)
        for (text, values), result in zip(made, results, strict=True):
            rest = result.text
            for value in sorted(values, key=len, reverse=True):
                assert value in rest, f"{value} is missing: {text} → {result.text}"
                rest = rest.replace(value, "\0", 1)
            assert ("lost" in result.flags) == bool(protect.emptied(text, result.text))


def test_everything_that_must_be_kept_is_kept(real_weights: Path) -> None:
    check(1, real_weights)


@pytest.mark.slow
def test_in_three_hundred_sentences(real_weights: Path) -> None:
    check(10, real_weights)
