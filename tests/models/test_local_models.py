"""Model files by name: added, found, forgotten, and fetched from a hub with their hash checked."""

from __future__ import annotations

import fcntl
import hashlib
import http.server
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typing_extensions import override

from chimera.errors import ConfigError
from chimera.models.local_models import KNOWN_MODELS, KnownModel, LocalModels, fetched

CONTENT = b"GGUF" + bytes(range(256)) * 400


@pytest.fixture
def models(tmp_path: Path) -> LocalModels:
    return LocalModels(tmp_path / "state")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "files" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    return path


def test_a_model_is_added_found_listed_and_forgotten_and_its_file_stays(
    models: LocalModels, file: Path
) -> None:
    assert models.listed() == {}
    assert models.add(file) == "tiny"
    assert models.add(file, "small") == "small"
    assert models.listed() == {"small": file, "tiny": file}
    assert models.find("small") == models.find(str(file)) == file
    assert models.remove("tiny") == file
    assert list(models.listed()) == ["small"]
    assert file.read_bytes() == CONTENT


def test_a_name_never_changes_its_meaning_silently(models: LocalModels, file: Path, tmp_path: Path) -> None:
    models.add(file, "coder")
    other = tmp_path / "other.gguf"
    other.write_bytes(CONTENT)
    with pytest.raises(ConfigError, match="chimera local rm coder"):
        models.add(other, "coder")
    assert models.listed() == {"coder": file}


@pytest.mark.parametrize("name", ["", " ", "a/b", "-m", "a\nb", "a\x1b[31m", "a.GGUF"])
def test_a_name_can_be_typed_and_shown(models: LocalModels, file: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is no name for a model"):
        models.add(file, name)


def test_a_file_may_end_in_capitals_and_a_pipe_is_none(models: LocalModels, tmp_path: Path) -> None:
    assert models.find(str(tmp_path / "X.GGUF")) == tmp_path / "X.GGUF"
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ConfigError, match="is no GGUF file"):
        models.add(tmp_path / "pipe.gguf")


def test_nothing_is_fetched_under_a_name_that_is_taken(models: LocalModels, file: Path) -> None:
    models.add(file, "qwen2.5-coder-1.5b")
    with pytest.raises(ConfigError, match="already"):
        models.pull("qwen2.5-coder-1.5b")


@pytest.mark.parametrize(
    ("text", "said"),
    [("qwen2.5-coder-1.5b", "chimera local pull qwen2.5-coder-1.5b"), ("nothing", "There are: tiny.")],
)
def test_an_unknown_name_is_answered_with_what_to_type(
    models: LocalModels, file: Path, text: str, said: str
) -> None:
    models.add(file)
    with pytest.raises(ConfigError, match=said):
        models.find(text)


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}'])
def test_a_damaged_table_is_told_and_never_overwritten(models: LocalModels, file: Path, content: str) -> None:
    models.state_dir.mkdir()
    table = models.state_dir / "models.json"
    table.write_text(content)
    with pytest.raises(ConfigError, match="mend or remove it"):
        models.add(file)
    assert table.read_text() == content


class Hub(http.server.BaseHTTPRequestHandler):
    """A hub with one file, which answers as huggingface_hub expects it."""

    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        if "missing" in self.path:
            return self.reply(404, 0)
        type(self).asked.append((self.path, self.headers["range"]))
        first = int((self.headers["range"] or "bytes=0-")[6:].split("-")[0])
        self.reply(206 if first else 200, len(CONTENT) - first)
        self.wfile.write(CONTENT[first:])
        return None

    def reply(self, status: int, length: int) -> None:
        self.send_response(status)
        for name, value in (
            ("x-repo-commit", "a" * 40),
            ("etag", f'"{hashlib.sha256(CONTENT).hexdigest()}"'),
            ("accept-ranges", "bytes"),
            ("content-length", str(length)),
        ):
            self.send_header(name, value)
        self.end_headers()

    @override
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def hub() -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    asked: list[tuple[str, str | None]] = []
    kind = type("OneHub", (Hub,), {"asked": asked})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def known() -> KnownModel:
    pytest.importorskip("huggingface_hub")
    return KnownModel(
        repository="someone/tiny",
        file="tiny.gguf",
        size=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        licence="Apache-2.0",
        about="a test",
    )


def test_a_model_is_fetched_once_and_checked(known: KnownModel, tmp_path: Path) -> None:
    told: list[str] = []
    with hub() as (endpoint, asked):
        path = fetched(known, cache=tmp_path / "cache", endpoint=endpoint, say=told.append)
        assert path.read_bytes() == CONTENT
        assert path.is_relative_to(tmp_path / "cache")
        assert fetched(known, cache=tmp_path / "cache", endpoint=endpoint, say=told.append) == path
        assert len(asked) == 1
    assert "Apache-2.0" in told[0]


def test_a_file_with_another_hash_is_removed_and_never_used(known: KnownModel, tmp_path: Path) -> None:
    with hub() as (endpoint, _), pytest.raises(ConfigError, match=r"is not what it should be.*removed"):
        fetched(replace(known, sha256="0" * 64), cache=tmp_path / "cache", endpoint=endpoint)
    assert not [path for path in (tmp_path / "cache").rglob("*.gguf") if path.exists()]


@pytest.mark.parametrize("left", [50_000, len(CONTENT), 2 * len(CONTENT)])
def test_what_an_earlier_attempt_has_left_is_taken_up(known: KnownModel, tmp_path: Path, left: int) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "tiny.gguf.part").write_bytes((CONTENT * 2)[:left])
    with hub() as (endpoint, asked):
        assert fetched(known, cache=cache, endpoint=endpoint).read_bytes() == CONTENT
    asked_for = {50_000: ["bytes=50000-"], len(CONTENT): [], 2 * len(CONTENT): [None]}[left]
    assert [part and part.removesuffix(str(len(CONTENT) - 1)) for _, part in asked] == asked_for
    assert [path.name for path in cache.iterdir()] == ["tiny.gguf"]


def test_a_connection_that_cannot_be_made_is_told(known: KnownModel, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="could not be fetched"):
        fetched(known, cache=tmp_path, endpoint="unknown://127.0.0.1:1")


def test_nobody_fetches_into_a_file_that_another_process_fetches_into(
    known: KnownModel, tmp_path: Path
) -> None:
    with (tmp_path / "tiny.gguf.part").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ConfigError, match="another process"):
            fetched(known, cache=tmp_path, endpoint="http://127.0.0.1:1")


def test_a_download_that_does_not_fit_does_not_begin(known: KnownModel, tmp_path: Path) -> None:
    with hub() as (endpoint, asked):
        with pytest.raises(ConfigError, match="make room"):
            fetched(replace(known, size=1 << 60), cache=tmp_path / "cache", endpoint=endpoint)
        assert asked == []


def test_a_hub_that_has_no_such_file_is_told(known: KnownModel, tmp_path: Path) -> None:
    (tmp_path / "missing.gguf.part").write_bytes(CONTENT[:9])
    with hub() as (endpoint, _), pytest.raises(ConfigError, match=r"could not be fetched.*has come is kept"):
        fetched(replace(known, file="missing.gguf"), cache=tmp_path, endpoint=endpoint)
    assert (tmp_path / "missing.gguf.part").read_bytes() == CONTENT[:9]


def test_only_known_models_are_fetched(models: LocalModels) -> None:
    with pytest.raises(ConfigError, match=r"is not one of: qwen2.5-coder-1.5b"):
        models.pull("gpt-99")
    assert all(len(known.sha256) == 64 and known.licence for known in KNOWN_MODELS.values())
