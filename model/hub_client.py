"""The client of a hub: what it states of a model's files, and those files. Every way in which huggingface_hub, of whichever
version, may fail becomes one line here. Uses only what it has had since 0.25."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import CheckpointError, TxError, UsageError
from .pulled import CONFIG, DIGEST, Remote, is_file, needed

TRIES = 2  # without a byte of progress; the library itself tries more often


class _WrongSize(CheckpointError):
    """More or fewer bytes came than were stated."""


class _Unreachable(TxError):
    """The connection failed; it may be tried again."""


class Client:
    """A client for one model at one revision (a branch, a tag, a commit; None: main). Raises TxError where huggingface_hub
    is not installed."""

    def __init__(self, repo: str, revision: str | None) -> None:
        try:
            from huggingface_hub import HfApi
            from huggingface_hub.utils import build_hf_headers, logging
        except ImportError:
            raise TxError('pulling models needs huggingface_hub: pip install "tx-transformer[hub]"') from None
        logging.set_verbosity_error()  # it warns of what it tries again
        self.repo, self.revision = repo, revision
        self.api: Any = HfApi()
        self.host = re.sub("^https?://", "", self.api.endpoint)
        # Compressed on the way, a file could not be gone on with from its middle.
        self.headers = {**build_hf_headers(library_name="tx"), "Accept-Encoding": "identity"}
        self.commit = revision or "main"  # what files are asked for of; once they are listed, a commit

    # -- what there is --

    def offline(self) -> bool:
        """Whether HF_HUB_OFFLINE is set."""
        from huggingface_hub import constants

        return bool(constants.HF_HUB_OFFLINE)

    def files(self) -> tuple[str, list[Remote]]:
        """The commit, and its files that are needed, as the hub states them."""
        from huggingface_hub import constants

        with self._told():
            info = self.api.model_info(
                self.repo, revision=self.revision, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT
            )
            siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
            self.commit = str(info.sha or self.commit)
        return self.commit, [self._remote(siblings[name]) for name in needed(self.repo, siblings)]

    def _remote(self, sibling: Any) -> Remote:
        """A hub that is only a mirror may list names alone: then the file itself is asked for its size and checksum."""
        lfs = sibling.lfs or {}
        size, digest = lfs.get("size", sibling.size), lfs.get("sha256", sibling.blob_id)
        if size is None or not digest:
            from huggingface_hub import get_hf_file_metadata

            with self._told(sibling.rfilename):
                stated = get_hf_file_metadata(self._url(sibling.rfilename), headers=self.headers)
            size, digest = stated.size, stated.etag
        if type(size) is not int or size < 0 or not DIGEST.fullmatch(str(digest)):
            raise CheckpointError(f"{self.host} states no size or no checksum of {sibling.rfilename}: not pulled")
        return Remote(sibling.rfilename, size, str(digest))

    def cached_files(self) -> tuple[str, list[Remote]]:
        """The same without a hub: its cache keeps a file as a link to one that is named by its checksum."""
        found = self.in_cache(CONFIG, self.commit)
        if found is None:
            raise TxError(
                f"HF_HUB_OFFLINE is set, and {self.repo} is not in the hub's cache on this machine: unset it to pull"
            )
        self.commit = found.parent.name
        files = []
        for name in needed(self.repo, [entry.name for entry in found.parent.iterdir()]):
            path = found.parent / name
            digest = os.path.basename(os.readlink(path)) if path.is_symlink() else ""
            if not DIGEST.fullmatch(digest):
                raise TxError(f"HF_HUB_OFFLINE is set, and the cache does not say the checksum of {path}")
            files.append(Remote(name, path.stat().st_size, digest))
        return self.commit, files

    def in_cache(self, name: str, revision: str) -> Path | None:
        """Where the hub's cache has the file, if it does."""
        from huggingface_hub import try_to_load_from_cache

        path = try_to_load_from_cache(self.repo, name, revision=revision)
        return Path(path) if isinstance(path, str) else None

    # -- the files --

    def download(self, file: Remote, part: Path) -> None:
        """Fetches a file into `part`, after what is in there. If that turns out to be wrong: once more, from its start."""
        while True:
            resumed = part.is_file() and part.stat().st_size > 0
            try:
                self._get(file, part)
                if is_file(part, file):
                    return
                raise CheckpointError(
                    f"{self.host} sent a damaged {file.name} (its checksum differs from the one stated): try again later"
                )
            except CheckpointError:
                part.unlink(missing_ok=True)
                if not resumed:
                    raise

    def _get(self, file: Remote, part: Path) -> None:
        from huggingface_hub.file_download import http_get

        tries = 0
        while True:
            before = part.stat().st_size if part.is_file() and not part.is_symlink() else 0
            if before > file.size or part.is_symlink():
                part.unlink()
                before = 0
            try:
                with _Part(part, file.size) as stream, self._told(file.name):
                    http_get(
                        self._url(file.name),
                        stream,
                        resume_size=before,
                        headers=self.headers,
                        expected_size=file.size,
                        displayed_filename=file.name,
                    )
                return
            except _Unreachable:
                tries = 0 if part.stat().st_size > before else tries + 1
                if tries == TRIES:
                    raise

    def _url(self, name: str) -> str:
        from huggingface_hub import hf_hub_url

        return str(hf_hub_url(self.repo, name, revision=self.commit, endpoint=self.api.endpoint))

    @contextlib.contextmanager
    def _told(self, name: str = "") -> Iterator[None]:
        """Says in a line of ours what the client of the hub raises, whichever libraries it is made of."""
        from huggingface_hub import errors

        try:
            yield
        except (TxError, errors.OfflineModeIsEnabled):
            raise
        except errors.GatedRepoError:
            raise TxError(f"{self.repo} is gated: accept its terms on {self.host}, then set HF_TOKEN") from None
        except errors.RepositoryNotFoundError:
            raise TxError(f"no model {self.repo} on {self.host}; if it is a private one, set HF_TOKEN") from None
        except errors.RevisionNotFoundError:
            raise TxError(f"{self.repo} has no revision {self.revision!r} on {self.host}") from None
        except errors.EntryNotFoundError:
            raise TxError(f"{self.repo} lacks the file {name} on {self.host}, which lists it") from None
        except errors.HfHubHTTPError as error:
            status = error.response.status_code if error.response is not None else "an error"
            if status == 416:  # we asked for what comes after the end of the file
                raise _WrongSize(f"{self.host} has a shorter {name} than it states: try again later") from None
            hint = "check HF_TOKEN" if status in (401, 403) else "try again later"
            raise TxError(f"{self.host} answered {status} for {self.repo}: {hint}") from None
        except errors.HFValidationError:
            raise UsageError(f"{self.repo!r} is not the name of a model on a hub: give OWNER/NAME") from None
        except Exception as error:
            said = " ".join(str(error).split())[:120] or type(error).__name__
            hint = f"{self.host} cannot be reached, or broke off ({said}): the same command goes on from there"
            raise _Unreachable(hint) from error


class _Part:
    """The file that a download is written to: at its end, `most` bytes in all, never through a symbolic link."""

    def __init__(self, path: Path, most: int) -> None:
        self.name, self.most = str(path), most
        flags = getattr(os, "O_NOFOLLOW", 0)
        self.file = open(path, "ab", opener=lambda name, mode: os.open(name, mode | flags, 0o666))  # noqa: SIM115

    def write(self, chunk: bytes) -> int:
        if self.file.tell() + len(chunk) > self.most:
            raise _WrongSize(f"more bytes of {Path(self.name).stem[:8]}… came than were stated: try again later")
        with writing(Path(self.name)):
            written = self.file.write(chunk)
            self.file.flush()
            return written

    def tell(self) -> int:
        return self.file.tell()

    def seek(self, offset: int) -> int:
        return self.file.seek(offset)

    def truncate(self) -> int:
        return self.file.truncate()

    def __enter__(self) -> _Part:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        hidden = contextlib.suppress(OSError) if kind else writing(Path(self.name))  # the first error says more
        with hidden, self.file:
            os.fsync(self.file.fileno())


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Says where the disk is full, or may not be written to."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise TxError(
            f"cannot write {path.parent}: {error.strerror}; what was fetched stays for the next time"
        ) from None
