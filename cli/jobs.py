"""Worker processes for `--jobs`: each does a share of the work, and results come out in the order of the tasks.

The processes are forked when the model is loaded, so there is one copy of the weights in memory: pages that no one
writes to stay shared. Nothing in this process may have started a thread before that. Loaded when it is asked for.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import signal
import struct
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..model.errors import TxError

LOOK_AHEAD = 3  # tasks for each worker that are begun or done while an earlier one is still waited for
SIGNALS = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}
HEADER = struct.Struct("!Q")  # the length of the message that follows


class WorkerTraceback(Exception):
    """Where an error of a worker came from; the cause of the error that is shown."""


@dataclass
class _Worker:
    pid: int
    tasks: int  # descriptors: written to by this process, and read from
    results: int
    entry: _Entry | None = None  # what it works on


@dataclass
class _Entry:
    """One task, in the order in which they were given."""

    done: Callable[[Any], None]
    result: tuple[Any, BaseException | None] | None = None


class Workers:
    """`count` processes, each of which does `work` for one task after another. Tasks and results are pickled.

    Use as a context manager: whatever happens, no process is left when it ends. An error in a worker is raised here, when
    the results of all tasks before are through. One that was killed is a TxError.
    """

    def __init__(self, work: Callable[[Any], Any], count: int, begin: Callable[[], None] = lambda: None) -> None:
        self._work, self._begin, self._count = work, begin, count
        self._workers: list[_Worker] = []
        self._order: deque[_Entry] = deque()  # whose results are not through
        self._ended: TxError | None = None  # how the last one ended that had nothing to do

    def __enter__(self) -> Workers:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        gc.freeze()  # what is there is no garbage, and a search for some would write to every page of it
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            for _ in range(self._count):
                self._start()
        except OSError as error:
            self._end()
            raise TxError(f"cannot start {self._count} processes: {error.strerror or error}; use less --jobs") from None
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def submit(self, task: Any, done: Callable[[Any], None]) -> None:
        """Has a task done, and `done` called with its result once those of all tasks before were. Waits while there is
        nobody to do it, or too much is done already that has to wait for its turn. A process that has ended before it began
        with a task leaves that to the others."""
        entry = _Entry(done)
        while True:
            while len(self._order) >= LOOK_AHEAD * self._count or all(worker.entry for worker in self._workers):
                if not self._workers and not self._order:
                    raise self._ended or TxError(f"the {self._count} processes have ended: run it again")
                self._collect()
            worker = next(worker for worker in self._workers if not worker.entry)
            try:
                _send(worker.tasks, task)
                worker.entry = entry
                break
            except BrokenPipeError:
                with contextlib.suppress(EOFError):
                    entry.result = _receive(worker.results)  # why it could not begin
                self._ended = self._has_ended(worker)
                if entry.result:
                    break
        self._order.append(entry)

    def call(self, task: Any) -> Any:
        """The result of a task that is waited for."""
        found: list[Any] = []
        self.submit(task, found.append)
        self.drain()
        return found[0]

    def drain(self) -> None:
        """Waits until all results are through."""
        while self._order:
            self._collect()

    def until_readable(self, descriptor: int) -> None:
        """Lets results through until there is something to read, or nothing is waited for."""
        while self._order and not self._collect(descriptor):
            pass

    def _collect(self, descriptor: int | None = None) -> bool:
        """Waits for a result, or for something to read; whether there is that. Lets through the results whose turn it is."""
        busy = {worker.results: worker for worker in self._workers if worker.entry}
        ready: set[int] = set()
        if not (self._order and self._order[0].result):
            poll = select.poll()
            for number in [*busy, *([] if descriptor is None else [descriptor])]:
                poll.register(number, select.POLLIN)
            ready = {number for number, _ in poll.poll()}
        for number in ready & set(busy):
            worker = busy[number]
            assert worker.entry
            try:
                worker.entry.result = _receive(number)
            except EOFError:
                worker.entry.result = (None, self._has_ended(worker))
            worker.entry = None
        while self._order and self._order[0].result:
            entry = self._order.popleft()
            assert entry.result
            value, error = entry.result
            if error is not None:
                self._order.clear()
                raise error
            entry.done(value)
        return descriptor in ready

    def _has_ended(self, worker: _Worker) -> TxError:
        """Forgets a worker that is no more, and says how it ended."""
        self._workers.remove(worker)
        os.close(worker.tasks)
        os.close(worker.results)
        status = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
        how = f"was killed (signal {-status})" if status < 0 else f"ended (status {status})"
        why = ": there may be too little memory" if status == -signal.SIGKILL else ""
        return TxError(f"one of the {self._count} processes {how}{why}; use less --jobs, or --max-memory")

    def _start(self) -> None:
        task_end, tasks = os.pipe()
        results, result_end = os.pipe()
        pid = os.fork()
        if pid:
            os.close(task_end)
            os.close(result_end)
            self._workers.append(_Worker(pid, tasks, results))
            return
        status = 1
        try:
            # Or the others' ends would stay open here, and this process would not learn that its parent has gone.
            for descriptor in (tasks, results, *(d for w in self._workers for d in (w.tasks, w.results))):
                os.close(descriptor)
            self._serve(task_end, result_end)
            status = 0
        finally:
            os._exit(status)  # nothing is flushed and nothing cleaned up here: that is the parent's

    def _serve(self, tasks: int, results: int) -> None:
        """What a worker does until it has no parent any more."""
        gc.enable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends its workers
        for number in SIGNALS - {signal.SIGINT}:
            if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1):  # or who reads the output would wait for this process as well
            os.dup2(nothing, descriptor)
        with contextlib.suppress(EOFError, BrokenPipeError):
            try:
                self._begin()
            except Exception as error:
                return _send(results, (None, _portable(error)))
            while True:
                task = _receive(tasks)
                try:
                    answer: tuple[Any, BaseException | None] = (self._work(task), None)
                except Exception as error:
                    answer = (None, _portable(error))
                _send(results, answer)

    def _end(self) -> None:
        for worker in self._workers:
            with contextlib.suppress(OSError):
                os.close(worker.tasks)
                os.close(worker.results)
                os.kill(worker.pid, signal.SIGKILL)  # there is nothing that it could lose
        for worker in self._workers:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(worker.pid, 0)
        self._workers.clear()


def _portable(error: Exception) -> Exception:
    """The error as it can be sent; what it came from, as text, becomes its cause."""
    import traceback

    trace = "".join(traceback.format_exception(error))
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = TxError(f"unexpected {type(error).__name__}: {error}")
    return _Sent(copy, trace)


class _Sent(Exception):
    """An error and its traceback; unpickled, it is that error with the traceback as its cause."""

    def __init__(self, error: Exception, trace: str) -> None:
        super().__init__(error, trace)

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_cause, self.args


def _with_cause(error: Exception, trace: str) -> Exception:
    error.__cause__ = WorkerTraceback("\n" + trace)
    return error


def _send(descriptor: int, message: Any) -> None:
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    data = memoryview(HEADER.pack(len(content)) + content)
    while data:
        data = data[os.write(descriptor, data) :]


def _receive(descriptor: int) -> Any:
    """The next message. Raises EOFError if there is none any more."""
    (length,) = HEADER.unpack(_read(descriptor, HEADER.size))
    return pickle.loads(_read(descriptor, length))


def _read(descriptor: int, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(descriptor, min(size - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
