"""A program that runs beside this one and answers: a line of JSON for each line of JSON. Standard library only."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import TxError

Reply = dict[str, Any]


class Child:
    """Starts `command` and sends it `opening`; `facts` is what it answers to that. `environment` comes on top of this
    process's, or is all of it (`only`). What the child writes to the standard error is kept for the case that it fails.
    Use as a context manager."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        opening: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
        only: bool = False,
    ) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**({} if only else os.environ), **(environment or {})},
        )
        try:
            self.facts = self.ask(opening)
        except BaseException:
            self.close()
            raise

    def ask(self, request: Mapping[str, Any]) -> Reply:
        """The answer. Raises TxError, one line with what the child said last, if it fails or says "error"."""
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):  # it has ended, which reading finds out too
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            raise TxError(f"{self.name} failed: {self._last_words()}")
        reply: Reply = json.loads(line)
        if "error" in reply:
            raise TxError(f"{self.name}: {reply['error']}")
        return reply

    def _last_words(self) -> str:
        """The last line with a letter in it that the child wrote to the standard error."""
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        said = next((line.strip() for line in reversed(lines) if any(map(str.isalpha, line))), "")
        return said or f"it ended with status {self._process.returncode}"

    def close(self) -> None:
        """Ends the child."""
        if self._process.stdin and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
