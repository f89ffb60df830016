"""Sentence pairs made by rule, for what must come through a translation unchanged: numbers, codes, addresses, names.

The frames are few and plain; what varies is what stands in them. Real text has too few long numbers and placeholders
for a model to learn that they are copied piece by piece.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Iterator

FRAMES = (
    ("The total is {number}.", "总数是{number}。"),
    ("The number is {long}", "号码是{long}"),
    ("Order number: {long}", "订单号：{long}"),
    ("It costs {price} dollars.", "它的价格是{price}美元。"),
    ("I paid {price} euros for it.", "我为它付了{price}欧元。"),
    ("He was born in {year}.", "他出生于{year}年。"),
    ("She lived here from {year} to {year2}.", "从{year}年到{year2}年，她住在这里。"),
    ("The meeting starts at {time}.", "会议{time}开始。"),
    ("Flight {code} leaves at {time}.", "{code}航班{time}起飞。"),
    ("{number} of {number2} people agreed.", "{number2}人中有{number}人同意。"),
    ("Of {number2} letters, {number} were lost.", "{number2}封信中有{number}封丢失了。"),
    ("Chapter {small}", "第{small}章"),
    ("See page {small}.", "见第{small}页。"),
    ("Version {version} is out.", "{version}版本已经发布。"),
    ("See {url} for more.", "更多内容请见{url}。"),
    ("Write to {mail}.", "请写信给{mail}。"),
    ("Open the file {file}.", "打开文件{file}。"),
    ("Delete {file} and {file2}", "删除{file}和{file2}"),
    ("Hello, {slot}!", "你好，{slot}！"),
    ("{slot} has sent you {number} messages.", "{slot}给你发了{number}条消息。"),
    ("The minister {name} said: {slot}", "部长{name}说：{slot}"),
    ("My name is {name}.", "我叫{name}。"),
    ("{name} and {name2} are here.", "{name}和{name2}在这里。"),
    ("The temperature is {degrees} degrees.", "温度是{degrees}度。"),
    ("It is {small}% cheaper.", "便宜了{small}%。"),
    ("Press {code} to go on.", "按{code}继续。"),
    ("{small} days later", "{small}天后"),
    ("Call me at {phone}.", "请打{phone}给我。"),
)


def _digits(rng: random.Random, low: int, high: int) -> str:
    return "".join(rng.choices(string.digits, k=rng.randint(low, high)))


def _number(rng: random.Random) -> str:
    value = int(_digits(rng, 1, 8))
    return f"{value:,}" if rng.random() < 0.4 else str(value)


def _word(rng: random.Random) -> str:
    return "".join(
        rng.choice(("ka", "lo", "mi", "ren", "sto", "va", "bel", "tu", "qui", "ş", "ö", "dan")) for _ in "ab"
    )


def _file(rng: random.Random) -> str:
    return _word(rng) + rng.choice(("", "_1", "-v2", "2024")) + rng.choice((".txt", ".py", ".csv", ".md"))


FILLERS: dict[str, Callable[[random.Random], str]] = {
    "number": _number,
    "number2": _number,
    "long": lambda rng: _digits(rng, 6, 40),
    "price": lambda rng: f"{rng.randint(1, 9999)}" + rng.choice(("", f".{rng.randint(10, 99)}")),
    "year": lambda rng: str(rng.randint(1400, 2030)),
    "year2": lambda rng: str(rng.randint(1400, 2030)),
    "time": lambda rng: f"{rng.randint(0, 23)}:{rng.randint(0, 59):02}",
    "code": lambda rng: rng.choice(string.ascii_uppercase) + rng.choice(string.ascii_uppercase) + _digits(rng, 1, 4),
    "small": lambda rng: str(rng.randint(1, 400)),
    "version": lambda rng: f"{rng.randint(0, 20)}.{rng.randint(0, 30)}" + rng.choice(("", f".{rng.randint(0, 9)}")),
    "url": lambda rng: f"https://{_word(rng)}.example/{_word(rng)}?p={_digits(rng, 1, 4)}",
    "mail": lambda rng: f"{_word(rng)}.{_word(rng)}@mail.example",
    "file": _file,
    "file2": _file,
    "slot": lambda rng: rng.choice(("{name}", "{user}", "%s", "{0}", "{count}", "%(name)s", "${value}", "<b>", "{ }")),
    "name": lambda rng: _word(rng).capitalize(),
    "name2": lambda rng: _word(rng).capitalize(),
    "degrees": lambda rng: rng.choice(("", "-")) + str(rng.randint(1, 90)),
    "phone": lambda rng: f"{_digits(rng, 3, 4)}-{_digits(rng, 4, 8)}",
}


def pairs(n: int, seed: int = 0) -> Iterator[tuple[str, str]]:
    """`n` pairs of (english, chinese); the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(n):
        english, chinese = rng.choice(FRAMES)
        values = {name: fill(rng) for name, fill in FILLERS.items()}
        yield english.format(**values), chinese.format(**values)
