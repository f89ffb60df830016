"""`tx`: translation, summaries and answers by one shared encoder-decoder Transformer, offline.

>>> import tx
>>> tx.translate("I love NLP")            # doctest: +SKIP
>>> tx.translate(["Hello.", "你好。"])     # doctest: +SKIP
>>> tx.attend("I love NLP").cross.shape   # layers, heads, pieces written, pieces read  # doctest: +SKIP

Importing `tx` is cheap: PyTorch is loaded when something of it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which would be most of what importing `tx` takes
if TYPE_CHECKING:
    from typing import Any

    from .model.attending import attend
    from .model.pipeline import Translator, translate
    from .model.results import AttentionMap

__version__ = "0.1.0"
__all__ = ["AttentionMap", "Translator", "__version__", "attend", "translate"]


def __getattr__(name: str) -> Any:
    if name in ("Translator", "translate"):
        from .model import pipeline

        return getattr(pipeline, name)
    if name == "attend":
        from .model import attending

        return attending.attend
    if name == "AttentionMap":
        from .model import results

        return results.AttentionMap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
