"""Sentences to measure with: made of parts by chance, the same ones every time, any number of them and of any length."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from ..errors import UsageError

ENGLISH: dict[str, list[str]] = {
    "who": [
        *("My neighbour", "The young doctor", "Nobody", "Our teacher", "An old sailor", "Her brother", "The new mayor"),
        *("Everyone here", "A friend of mine", "The woman next door", "Your uncle", "The last visitor"),
    ],
    "did": [
        *(
            "has lost",
            "wanted to sell",
            "never found",
            "carried",
            "is looking for",
            "painted",
            "forgot",
            "was afraid of",
        ),
        *("would like to see", "cleaned", "talked about", "had to wait for"),
    ],
    "what": [
        *("the blue boat", "a heavy suitcase", "the letters", "a bowl of soup", "the broken window", "his first car"),
        *("that little dog", "the evening train", "our garden", "a map of the island", "the answer", "two warm coats"),
    ],
    "where": [
        *("at the station", "behind the church", "in a small town", "near the river", "on the roof", "in the market"),
        *("on the way home", "at the foot of the hill", "in an empty room"),
    ],
    "when": [
        *("yesterday", "last winter", "before breakfast", "in the middle of the night", "on Sunday", "after the storm"),
        *("years ago", "just now", "during the long holidays"),
    ],
    "why": [
        *("because the road was closed", "although it was raining hard", "while the children were asleep"),
        *("so that we could go home early", "when the music finally stopped", "before anyone asked a question"),
        *("since there was nothing else to do", "until the lights went out"),
    ],
}
CHINESE: dict[str, list[str]] = {
    "who": ["我的邻居", "那位年轻的医生", "我们的老师", "她的弟弟", "新来的同事", "大家", "一个老朋友", "你叔叔"],
    "did": ["丢了", "想卖掉", "一直没有找到", "搬走了", "正在找", "画了", "忘记了", "很想看看", "谈到了"],
    "what": [
        "那条蓝色的船",
        "一个很重的箱子",
        "那些信",
        "一碗热汤",
        "他的第一辆车",
        "那只小狗",
        "我们的花园",
        "岛上的地图",
    ],
    "where": ["在车站", "在教堂后面", "在一个小镇上", "在河边", "在市场里", "在回家的路上", "在山脚下"],
    "when": ["昨天", "去年冬天", "早饭以前", "半夜", "星期天", "暴风雨过后", "刚才", "放假的时候"],
    "why": [
        "因为路不通",
        "虽然雨下得很大",
        "趁孩子们睡着的时候",
        "为了早点回家",
        "在别人问起以前",
        "因为没有别的事可做",
    ],
}


def _english(pick: Callable[[str], str], size: int) -> str:
    """A sentence of `size` steps of length."""
    words = [pick("who"), pick("did"), pick("what"), *(pick(kind) for kind in ("where", "when")[: max(0, size - 1)])]
    text = " ".join(words)
    for n in range(3, size):
        text += f", {pick('why')}" if n % 2 else f", and {_lowered(pick('who'))} {pick('did')} {pick('what')}"
    return text + "."


def _lowered(text: str) -> str:
    return text[0].lower() + text[1:]


def _chinese(pick: Callable[[str], str], size: int) -> str:
    text = "".join([*([pick("when")] if size > 2 else []), pick("who"), *([pick("where")] if size > 1 else [])])
    text += pick("did") + pick("what")
    for n in range(3, size):
        text += f"，{pick('why')}" if n % 2 else f"，{pick('who')}也{pick('did')}{pick('what')}"
    return text + "。"


def length(text: str, language: str) -> int:
    """In words; of Chinese in characters."""
    return len(text) if language == "zh" else len(text.split())


def stream(language: str = "en", seed: int = 1) -> Iterator[tuple[int, str]]:
    """Sentences without end, with their sizes: short, middling and long ones in turn."""
    parts, make = (CHINESE, _chinese) if language == "zh" else (ENGLISH, _english)
    rng = random.Random(f"{language} {seed}")
    for size in itertools.cycle((1, 2, 3, 4, 5, 3, 6)):
        yield size, make(lambda kind: rng.choice(parts[kind]), size)


def sentences(count: int, language: str = "en", least: int = 1, most: int = 10**9, seed: int = 1) -> list[str]:
    """`count` different sentences of `least` to `most` words (of Chinese: characters), always the same ones. Raises
    UsageError where so many cannot be made."""
    found: dict[str, None] = {}
    for _, text in itertools.islice(stream(language, seed), 20_000 + 100 * count):
        if len(found) == count:
            return list(found)
        if least <= length(text, language) <= most:
            found[text] = None
    raise UsageError(f"there are only {len(found)} built-in sentences of {least} to {most} words: use a file")


def mixed(count: int, languages: list[str]) -> list[str]:
    """As many of each language, in turn."""
    each = -(-count // len(languages))
    columns = [sentences(each, language) for language in languages]
    return [text for row in zip(*columns, strict=True) for text in row][:count]
