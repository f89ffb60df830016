"""A little hub on the loopback address: the calls of the real one's API that fetching a model needs, and its faults."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "1234567890abcdef1234567890abcdef12345678"
LARGE = 5000  # bytes from which on a file lies elsewhere, under its sha256


class Hub:
    """`repos` are files by name, by id; everything else is what is wrong, by file name."""

    def __init__(self) -> None:
        self.repos: dict[str, dict[str, bytes]] = {}
        self.commit = COMMIT
        self.revisions = {"main"}
        self.refuse: dict[str, tuple[int, str]] = {}  # id → status, error code
        self.lists: list[str] = []  # names that are listed and are not there
        self.states_nothing = False  # a mirror that lists names only
        self.drops: dict[str, list[int]] = {}  # after how many bytes the connection breaks, one answer each
        self.sends: dict[str, bytes] = {}  # other bytes than are stated
        self.stalls: dict[str, int] = {}  # after how many bytes nothing more comes
        self.no_ranges = False
        self.stalled, self.go_on = threading.Event(), threading.Event()
        self.log: list[tuple[str, str, str]] = []  # method, path, range
        self.tokens: list[str] = []

    def sent(self, name: str) -> list[str]:
        """The ranges (or "") that the bytes of a file were asked for."""
        return [asked for method, path, asked in self.log if method == "GET" and path.endswith(f"/{name}")]


def digest(content: bytes) -> str:
    if len(content) >= LARGE:
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.log.append((self.command, path, self.headers.get("Range", "")))
        self.hub.tokens.append(self.headers.get("Authorization", ""))
        if found := re.fullmatch(r"/api/models/(.+?)(?:/revision/(.+))?", path):
            self.describe(found[1], found[2] or "main")
        elif found := re.fullmatch("/(.+?)/resolve/(.+?)/(.+)", path):
            self.resolve(*found.groups())
        elif found := re.fullmatch("/elsewhere/(.+)/(.+)/(.+)", path):
            self.content(*found.groups())
        else:
            self.fail(404, "")

    def fail(self, status: int, code: str) -> None:
        self.send_response(status)
        for name, value in (("X-Error-Code", code), ("X-Error-Message", code), ("Content-Length", "0")):
            self.send_header(name, value)
        self.end_headers()

    def describe(self, repo: str, revision: str) -> None:
        if repo in self.hub.refuse:
            return self.fail(*self.hub.refuse[repo])
        if repo not in self.hub.repos:
            return self.fail(404, "RepoNotFound")
        if revision not in self.hub.revisions | {self.hub.commit}:
            return self.fail(404, "RevisionNotFound")
        files = {**self.hub.repos[repo], **dict.fromkeys(self.hub.lists, b"")}
        siblings: list[dict[str, Any]] = [{"rfilename": name} for name in files]
        if not self.hub.states_nothing:
            for sibling, content in zip(siblings, files.values(), strict=True):
                sibling |= {"size": len(content), "blobId": digest(content)}
                if len(content) >= LARGE:
                    sibling["lfs"] = {"size": len(content), "sha256": digest(content), "pointerSize": 130}
        answer = {"_id": "1", "id": repo, "modelId": repo, "sha": self.hub.commit, "siblings": siblings}
        answer |= {"private": False, "tags": [], "downloads": 0, "likes": 0}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def resolve(self, repo: str, revision: str, name: str) -> None:
        if name not in self.hub.repos.get(repo, {}):
            return self.fail(404, "EntryNotFound")
        content = self.hub.repos[repo][name]
        if len(content) < LARGE:
            return self.content(repo, revision, name)
        self.send_response(302)
        self.state(content)
        self.send_header("Location", f"/elsewhere/{repo}/{revision}/{name}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def state(self, content: bytes) -> None:
        self.send_header("X-Repo-Commit", self.hub.commit)
        self.send_header("ETag", f'"{digest(content)}"')
        if len(content) >= LARGE:
            self.send_header("X-Linked-Etag", f'"{digest(content)}"')
            self.send_header("X-Linked-Size", str(len(content)))

    def content(self, repo: str, revision: str, name: str) -> None:
        stated = self.hub.repos[repo][name]
        body = self.hub.sends.get(name, stated)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and not self.hub.no_ranges else 0
        if start and start >= len(body):
            return self.fail(416, "")
        self.send_response(206 if start else 200)
        self.state(stated)
        self.send_header("Content-Length", str(len(body) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        body = body[start:]
        if name in self.hub.stalls:
            self.wfile.write(body[: self.hub.stalls[name]])
            self.wfile.flush()
            self.hub.stalled.set()
            self.hub.go_on.wait(30)
        elif self.hub.drops.get(name):
            self.wfile.write(body[: self.hub.drops[name].pop(0)])
            self.close_connection = True
        else:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        pass  # a client that was killed


@contextlib.contextmanager
def serving() -> Iterator[tuple[Hub, str]]:
    """A hub without repositories, and its address."""
    hub = Hub()
    server = _Server(("127.0.0.1", 0), type("_Handler", (Handler,), {"hub": hub}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub, f"http://127.0.0.1:{server.server_port}"
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
