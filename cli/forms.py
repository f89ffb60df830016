"""What `tx translate` writes for a line, other than its translation alone. Loaded when it is asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .lines import as_text

if TYPE_CHECKING:
    from ..model.results import Alignment, Translation
    from .text_io import Line

    Form = Callable[[Line, Translation | None], str]


def json_lines(source: str | None, target: str | None) -> Form:
    """What writes a line and its result, None for a blank line, as a JSON object; the languages are those of the command
    line."""

    def form(line: Line, result: Translation | None) -> str:
        flags = set(result.flags) if result else {"copied"}
        record: dict[str, Any] = {
            "source": line.text,
            "translation": as_text(line, result.text if result else None),
            "from": result.source_language if result else source,
            "to": result.target_language if result else target,
            "score": _number(result.score if result else 0.0),
            "flags": sorted(flags | ({"split"} if line.part else set())),
        }
        if result and result.alternatives:
            record["alternatives"] = [
                {"translation": as_text(line, text), "score": _number(score)} for text, score in result.alternatives
            ]
        if result and result.alignment:
            record["alignment"] = _alignment(result.alignment, len(line.text) - len(line.text.lstrip()))
        return json.dumps(record, ensure_ascii=False) + "\n"

    return form


def columns(with_score: bool, n_best: int | None, align: bool) -> Form:
    """What writes the columns that are asked for, with tabs between: score, translation, links between words; and for
    `n_best` a line for each of the best translations. A blank line stays as it is."""

    def form(line: Line, result: Translation | None) -> str:
        end = line.end or "\n" * bool(line.part)
        if result is None:
            return line.text + end
        if n_best is not None:
            several = [f"{score:.4f}\t{as_text(line, text)}" for text, score in result.alternatives]
            return "\n".join(several or [f"{result.score:.4f}\t{as_text(line, result.text)}"]) + end
        found = [f"{result.score:.4f}"] if with_score else []
        found += [as_text(line, result.text)]
        found += [result.alignment.pharaoh if result.alignment else ""] if align else []
        return "\t".join(found) + end

    return form


def _alignment(found: Alignment, indent: int) -> dict[str, Any]:
    """Words as [start, end] in the line and its translation, both of which begin with `indent` spaces; links as pairs of
    their numbers."""
    return {
        "source_words": [[start + indent, end + indent] for start, end in found.source_words],
        "output_words": [[start + indent, end + indent] for start, end in found.target_words],
        "links": [list(link) for link in found.links],
    }


def _number(score: float) -> float | None:
    """The score as JSON has it; an infinity is no number there."""
    return round(score, 4) if math.isfinite(score) else None
