"""`tx`: translation by one shared encoder-decoder Transformer, offline.

>>> import tx
>>> tx.translate("I love NLP")            # doctest: +SKIP
>>> tx.translate(["Hello.", "你好。"])     # doctest: +SKIP

Importing `tx` is cheap: PyTorch is loaded when something of it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .model.pipeline import Translator, translate

__version__ = "0.1.0"
__all__ = ["Translator", "__version__", "translate"]


def __getattr__(name: str) -> Any:
    if name in ("Translator", "translate"):
        from .model import pipeline

        return getattr(pipeline, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
