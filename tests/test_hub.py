"""`pull` and `tx models pull`, against a little hub of our own."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tx.model import hub_client
from tx.model.errors import CheckpointError, TxError, UsageError
from tx.model.hub import Pulled, pull
from tx.model.places import models_folder, user_models
from tx.model.pulled import RECORD, check_pulled, needed

ID = "some-one/small-model"
WEIGHTS = random.Random(1).randbytes(60_000)
FILES = {
    "config.json": json.dumps({"model_type": "marian", "note": "é" * 900}).encode(),
    "source.spm": b"the pieces of the source" * 400,
    "target.spm": b"those of the target",
    "vocab.json": b"{}",
    "README.md": b"---\nlicense: apache-2.0\n---\n# A model\n",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"a pickle",
    "tf_model.h5": b"another format",
    "onnx/model.onnx": b"a third",
}
WANTED = ["README.md", "config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json"]


@pytest.fixture(scope="module")
def server_module() -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location("hub_server", Path(__file__).parent / "hub_server.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def address(server_module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, str]]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with server_module.serving() as (hub, url):
        hub.repos[ID] = dict(FILES)
        yield hub, url


@pytest.fixture
def hub(address: tuple[Any, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hub, and the library in this process turned to it: its settings are read from the environment at its import."""
    from huggingface_hub import constants, file_download, hf_api

    hub, url = address
    settings = {
        "ENDPOINT": url,
        "HUGGINGFACE_CO_URL_TEMPLATE": url + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(tmp_path / "cache"),
        "HF_HUB_OFFLINE": False,
        "DOWNLOAD_CHUNK_SIZE": 1000,  # of 10 MB: what is shorter is lost with the connection
    }
    for module in (constants, file_download, hf_api):  # older versions import them by name
        for name, value in settings.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    patient = SimpleNamespace(**{**vars(time), "sleep": lambda seconds: None})
    monkeypatch.setattr(file_download, "time", patient)
    return hub


def installed() -> list[str]:
    return sorted(path.name for path in (models_folder() / ID).iterdir())


def assert_nothing_installed() -> None:
    assert user_models() == {}
    assert not (models_folder() / ID).exists()


# --- what is fetched ---


def test_the_files_that_are_needed(hub: Any) -> None:
    done = pull(ID)
    assert done == Pulled(models_folder() / ID, hub.commit, sum(len(FILES[name]) for name in WANTED), new=True)
    assert installed() == sorted([*WANTED, RECORD])
    for name in WANTED:
        assert (done.path / name).read_bytes() == FILES[name]
        assert not (done.path / name).is_symlink()
    assert user_models() == {ID: done.path}
    assert check_pulled(done.path) == len(WANTED)
    assert [path.name for path in done.path.parent.iterdir()] == ["small-model"]


def test_a_second_pull_asks_once_and_does_nothing(hub: Any) -> None:
    pull(ID)
    before = {path: path.stat().st_mtime_ns for path in (models_folder() / ID).iterdir()}
    hub.log.clear()
    assert not pull(ID).new
    assert [path for _, path, _ in hub.log] == [f"/api/models/{ID}"]
    assert {path: path.stat().st_mtime_ns for path in (models_folder() / ID).iterdir()} == before


def test_a_damaged_model_is_mended(hub: Any) -> None:
    done = pull(ID)
    (done.path / "model.safetensors").write_bytes(WEIGHTS[:-1])
    hub.log.clear()
    with pytest.raises(CheckpointError, match=r"model\.safetensors is not the file that was pulled"):
        check_pulled(done.path)
    assert pull(ID).new
    assert check_pulled(done.path) == len(WANTED)
    assert hub.sent("source.spm") == []  # what was whole was not fetched again


def test_a_new_revision_takes_the_place_of_the_old_one(hub: Any) -> None:
    pull(ID)
    hub.commit = "f" * 40
    hub.repos[ID]["README.md"] = b"# New\n"
    del hub.repos[ID]["target.spm"]
    hub.log.clear()
    done = pull(ID)
    assert (done.revision, done.new) == ("f" * 40, True)
    assert (done.path / "README.md").read_bytes() == b"# New\n"
    assert "target.spm" not in installed()
    assert hub.sent("model.safetensors") == []
    assert [path.name for path in done.path.parent.iterdir()] == ["small-model"]


def test_a_revision(hub: Any) -> None:
    hub.revisions.add("v2/x")
    assert pull(ID, "v2/x").revision == hub.commit
    assert ("GET", f"/api/models/{ID}/revision/v2/x", "") in hub.log
    with pytest.raises(TxError, match=f"{ID} has no revision 'v3'"):
        pull(ID, "v3")


def test_pickles_only_where_there_is_nothing_else() -> None:
    assert needed("a/b", ["config.json", "pytorch_model.bin", "flax_model.msgpack"]) == [
        "config.json",
        "pytorch_model.bin",
    ]
    shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    names = ["config.json", "model.safetensors.index.json", *shards]
    assert needed("a/b", [*names, "pytorch_model.bin"]) == names
    with pytest.raises(CheckpointError, match="a/b has no weights that tx reads"):
        needed("a/b", ["config.json", "tf_model.h5"])
    with pytest.raises(CheckpointError, match=r"no config\.json"):
        needed("a/b", ["README.md", "model.safetensors"])


def test_files_of_marian() -> None:
    names = ["config.intgemm8bitalpha.yml", "model.enpt.intgemm.alphas.bin", "vocab.enpt.spm", "lex.50.50.enpt.s2t.bin"]
    assert needed("a/b", [*names, "README.md", "train.log"]) == ["README.md", *names]


def test_a_mirror_that_lists_names_only(hub: Any) -> None:
    hub.states_nothing = True
    done = pull(ID)
    assert check_pulled(done.path) == len(WANTED)
    assert [path for method, path, _ in hub.log if method == "HEAD"]


# --- connections that break ---


def test_a_dropped_connection_is_gone_on_with(hub: Any) -> None:
    hub.drops["model.safetensors"] = [20_000, 15_000]
    done = pull(ID)
    assert (done.path / "model.safetensors").read_bytes() == WEIGHTS
    elsewhere = [
        asked for path, asked in ((p, a) for _, p, a in hub.log) if path.startswith("/elsewhere") and "model." in path
    ]
    starts = [int(asked[6:-1] or 0) if asked else 0 for asked in elsewhere]
    assert starts[0] == 0 and len(starts) == 3
    assert 15_000 < starts[1] <= 20_000 < starts[2] <= 35_000


def test_what_had_come_is_kept_for_the_next_pull(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.drops["model.safetensors"] = [20_000] + [0] * 100
    with pytest.raises(
        TxError, match=r"127\.0\.0\.1:\d+ cannot be reached, or broke off \(.*\): the same command goes on"
    ):
        pull(ID)
    assert_nothing_installed()
    hub.drops.clear()
    hub.log.clear()
    done = pull(ID)
    assert (done.path / "model.safetensors").read_bytes() == WEIGHTS
    assert all(asked.startswith("bytes=") for asked in hub.sent("model.safetensors"))
    assert hub.sent("config.json") == []


def test_a_beginning_that_is_wrong_is_not_gone_on_with_twice(hub: Any) -> None:
    hub.drops["model.safetensors"] = [20_000] + [0] * 100
    with pytest.raises(TxError):
        pull(ID)
    (part,) = (models_folder() / "some-one" / ".small-model.part").glob("*.part")
    part.write_bytes(b"?" * part.stat().st_size)
    hub.drops.clear()
    done = pull(ID)
    assert (done.path / "model.safetensors").read_bytes() == WEIGHTS


def test_a_hub_that_knows_no_ranges(hub: Any) -> None:
    hub.drops["model.safetensors"] = [20_000] + [0] * 100
    with pytest.raises(TxError):
        pull(ID)
    hub.drops.clear()
    hub.no_ranges = True
    assert (pull(ID).path / "model.safetensors").read_bytes() == WEIGHTS


@pytest.mark.parametrize("name", ["model.safetensors", "vocab.json"])  # by sha256, by git's sha1
def test_wrong_bytes(hub: Any, name: str) -> None:
    hub.sends[name] = FILES[name][:-1] + b"!"
    with pytest.raises(CheckpointError, match=f"sent a damaged {name} .its checksum differs"):
        pull(ID)
    assert_nothing_installed()
    hub.sends.clear()
    assert check_pulled(pull(ID).path) == len(WANTED)


def test_too_few_bytes(hub: Any) -> None:
    hub.sends["model.safetensors"] = WEIGHTS[:50_000]
    with pytest.raises(CheckpointError, match=r"has a shorter model\.safetensors than it states"):
        pull(ID)
    assert_nothing_installed()


def test_too_many_bytes(hub: Any) -> None:
    hub.sends["model.safetensors"] = WEIGHTS * 50
    with pytest.raises(CheckpointError, match="more bytes of .* came than were stated"):
        pull(ID)
    assert_nothing_installed()
    assert sum(path.stat().st_size for path in models_folder().rglob("*") if path.is_file()) < 100_000


# --- what is refused ---


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "..\\evil", "C:\\evil"])
def test_names_that_leave_the_folder(hub: Any, name: str, tmp_path: Path) -> None:
    hub.repos[ID][name] = b"evil"
    with pytest.raises(CheckpointError, match="lists a file outside of its folder"):
        pull(ID)
    assert_nothing_installed()
    assert not list(tmp_path.rglob("*evil*"))


def test_an_index_that_names_other_files(hub: Any, tmp_path: Path) -> None:
    files = hub.repos[ID]
    del files["model.safetensors"]
    files["model-00001-of-00002.safetensors"] = WEIGHTS
    files["model.safetensors.index.json"] = json.dumps(
        {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "../../evil"}}
    ).encode()
    with pytest.raises(
        CheckpointError, match=r"lacks '../../evil', a file that its model\.safetensors\.index\.json names"
    ):
        pull(ID)
    assert_nothing_installed()
    assert hub.sent("model-00001-of-00002.safetensors") == []
    assert not (models_folder() / "some-one").exists()  # nothing is left of it


def test_a_file_that_is_listed_and_not_there(hub: Any) -> None:
    hub.lists = ["tokenizer.json"]
    hub.states_nothing = True
    with pytest.raises(TxError, match=r"lacks the file tokenizer\.json on 127\.0\.0\.1:\d+, which lists it"):
        pull(ID)
    assert_nothing_installed()


@pytest.mark.parametrize("config", [b'{"model_type": "llama"}', b"[" * 10**6, b"[1]", b"../../../etc/passwd"])
def test_another_kind_of_model_is_not_fetched(hub: Any, config: bytes) -> None:
    hub.repos[ID]["config.json"] = config
    with pytest.raises(
        CheckpointError, match=r"of type 'llama', not of one that tx reads|config\.json is not a JSON object"
    ):
        pull(ID)
    assert_nothing_installed()
    if len(config) < len(WEIGHTS):
        assert hub.sent("model.safetensors") == []
    assert not (models_folder() / "some-one").exists()


def test_symbolic_links_in_the_way_are_not_followed(hub: Any, tmp_path: Path, server_module: ModuleType) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    staging = models_folder() / "some-one" / ".small-model.part"
    staging.mkdir(parents=True)
    (staging / "config.json").symlink_to(outside)
    (staging / f"{server_module.digest(WEIGHTS)}.part").symlink_to(outside)
    done = pull(ID)
    assert outside.read_bytes() == b"mine"
    assert not [path for path in done.path.iterdir() if path.is_symlink()]
    assert check_pulled(done.path) == len(WANTED)


def test_a_folder_of_the_user_is_left_alone(hub: Any) -> None:
    mine = models_folder() / ID
    mine.mkdir(parents=True)
    (mine / "config.json").write_text("mine")
    with pytest.raises(TxError, match="is there already and was not pulled"):
        pull(ID)
    assert (mine / "config.json").read_text() == "mine"
    assert hub.log == []


@pytest.mark.parametrize("name", ["", "a/b/c", "../b", "a/..", "a/.b", "-a/b", "a b", "a/b\n", "/a", "http://a/b"])
def test_names_that_are_none(hub: Any, name: str) -> None:
    with pytest.raises(UsageError, match="is not the name of a model on a hub"):
        pull(name)
    assert hub.log == []


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (404, "RepoNotFound", "no model some-one/small-model on 127"),
        (401, "RepoNotFound", "if it is a private one, set HF_TOKEN"),
        (403, "GatedRepo", "is gated: accept its terms"),
        (503, "", "answered 503 for some-one/small-model: try again later"),
    ],
)
def test_what_the_hub_refuses(hub: Any, status: int, code: str, words: str) -> None:
    hub.refuse[ID] = status, code
    with pytest.raises(TxError) as caught:
        pull(ID)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert_nothing_installed()


def test_a_full_disk(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []

    class Full(hub_client._Part):
        def write(self, chunk: bytes) -> int:
            written.append(len(chunk))
            if sum(written) > 40_000:
                self.file.close()
                self.file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
            return super().write(chunk)

    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    monkeypatch.setattr(hub_client, "_Part", Full)
    with pytest.raises(TxError, match=f"cannot write .*: {os.strerror(errno.ENOSPC)}; what was fetched stays"):
        pull(ID)
    assert_nothing_installed()


def test_too_little_space_is_said_before(hub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10_000))
    with pytest.raises(TxError, match=f"no space for {ID} in .*: it needs 0 MB more, and 0 MB are free"):
        pull(ID)
    assert hub.sent("model.safetensors") == []


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(TxError, match=r'needs huggingface_hub: pip install "tx-transformer\[hub\]"'):
        pull(ID)


# --- as a user runs it ---


def tx(url: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "TRANSFORMERS_"))}
    home = str(Path(os.environ["XDG_DATA_HOME"]).parent / "hf")
    return subprocess.Popen(
        [sys.executable, "-m", "tx.cli", "models", *arguments],
        env={**clean, "HF_ENDPOINT": url, "HF_HOME": home, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def done(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_the_command(address: tuple[Any, str]) -> None:
    hub, url = address
    status, out, err = done(tx(url, "pull", ID, HF_TOKEN="hf_secret"))
    assert (status, err) == (0, "")  # no progress: that is no terminal
    size = sum(len(FILES[name]) for name in WANTED)
    assert out == f"{ID}: {size / 1000:.1f} kB in {models_folder() / ID}\n"
    assert "Bearer hf_secret" in hub.tokens
    assert done(tx(url, "pull", ID)) == (0, f"{ID}: there already, in {models_folder() / ID}\n", "")
    # without a network the model is still there, and another is said not to be
    assert done(tx(url, "pull", ID, HF_HUB_OFFLINE="1"))[0] == 0
    status, out, err = done(tx(url, "pull", "a/b", HF_HUB_OFFLINE="1"))
    assert (status, out) == (1, "")
    assert (
        err == "tx: error: HF_HUB_OFFLINE is set, and a/b is not in the hub's cache on this machine: unset it to pull\n"
    )
    status, out, err = done(tx("http://127.0.0.1:9", "pull", ID))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert "127.0.0.1:9 cannot be reached" in err
    assert done(tx(url, "pull", "../evil"))[0] == 2


def test_offline_the_cache_of_the_hub_is_taken(
    address: tuple[Any, str], server_module: ModuleType, tmp_path: Path
) -> None:
    hub, url = address
    cache = tmp_path / "hf" / "hub" / "models--some-one--small-model"
    snapshot = cache / "snapshots" / hub.commit
    for folder in (cache / "blobs", cache / "refs", snapshot):
        folder.mkdir(parents=True)
    (cache / "refs" / "main").write_text(hub.commit)
    for name in WANTED:
        (cache / "blobs" / server_module.digest(FILES[name])).write_bytes(FILES[name])
        (snapshot / name).symlink_to(f"../../blobs/{server_module.digest(FILES[name])}")
    assert done(tx(url, "pull", ID, HF_HUB_OFFLINE="1"))[0] == 0
    assert hub.log == []
    assert check_pulled(models_folder() / ID) == len(WANTED)
    assert not [path for path in (models_folder() / ID).iterdir() if path.is_symlink()]
    # on line, too, its files are not fetched again
    shutil.rmtree(models_folder() / ID)
    assert done(tx(url, "pull", ID))[0] == 0
    assert [method for method, path, _ in hub.log if "resolve" in path] == []
    # and a damaged one is
    shutil.rmtree(models_folder() / ID)
    (cache / "blobs" / server_module.digest(WEIGHTS)).write_bytes(b"?" * len(WEIGHTS))
    assert done(tx(url, "pull", ID))[0] == 0
    assert len(hub.sent("model.safetensors")) == 2  # where it is, and there
    assert check_pulled(models_folder() / ID) == len(WANTED)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killed_in_the_middle(address: tuple[Any, str], number: signal.Signals) -> None:
    hub, url = address
    weights = random.Random(2).randbytes(24 << 20)  # the library writes 10 MB at a time
    hub.repos[ID]["model.safetensors"] = weights
    hub.stalls["model.safetensors"] = 23 << 20
    process = tx(url, "pull", ID)
    staging = models_folder() / "some-one" / ".small-model.part"
    try:
        assert hub.stalled.wait(30)
        while not [part for part in staging.glob("*.part") if part.stat().st_size >= 20 << 20]:
            time.sleep(0.02)
            assert process.poll() is None
        process.send_signal(number)
        status, out, _ = done(process)
    finally:
        process.kill()
    assert (status, out) == (-9 if number == signal.SIGKILL else 143, "")
    hub.go_on.set()
    assert_nothing_installed()
    hub.stalls.clear()
    hub.log.clear()
    assert done(tx(url, "pull", ID))[0] == 0
    assert hub.sent("model.safetensors")[0].startswith("bytes=2")
    assert (models_folder() / ID / "model.safetensors").read_bytes() == weights
    assert not staging.exists()


def test_two_at_once_fetch_it_once(address: tuple[Any, str]) -> None:
    hub, url = address
    both = [tx(url, "pull", ID), tx(url, "pull", ID)]
    assert [done(process)[0] for process in both] == [0, 0]
    assert len([path for _, path, _ in hub.log if path.startswith("/elsewhere") and "model." in path]) == 1
    assert check_pulled(models_folder() / ID) == len(WANTED)
