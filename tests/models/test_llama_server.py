"""Servers of our own: started, waited for, asked for their window, and ended whatever happens to us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from chimera.config import process_environment
from chimera.errors import ConfigError
from chimera.models.llama_server import (
    PROGRAM_VARIABLE,
    LlamaServer,
    find_llama_server,
    start_llama_server,
)
from chimera.models.local_window import reported_window

FAKE = Path(__file__).with_name("fake_llama_server.py")
ENVIRONMENT = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny coder.gguf"
    path.write_bytes(b"GGUF and the rest")
    return path


@contextmanager
def running(model: Path, window: int | None = 4_096, **environment: str) -> Iterator[LlamaServer]:
    server = start_llama_server(
        FAKE,
        model,
        window=window,
        log=model.parent / "logs" / "server.log",
        environment={**ENVIRONMENT, **environment},
    )
    try:
        yield server
    finally:
        server.close()


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def listens(server_port: int) -> bool:
    hexadecimal = f":{server_port:04X} "
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return any(hexadecimal in line.split(None, 2)[1] + " " and line.split()[3] == "0A" for line in lines[1:])


def port(server: LlamaServer) -> int:
    found = urlsplit(server.api_base).port
    assert found is not None
    return found


def test_a_server_is_waited_for_says_its_window_and_is_gone_afterwards(model: Path) -> None:
    with running(model, FAKE_LOADING="4") as server:
        window = reported_window(f"openai/{server.name}", api_base=server.api_base)
        assert window is not None
        assert (window.tokens, window.source) == (4_096, "server")
        assert server.name == "tiny coder"
        assert server.log.read_text() == "listening\n"
        assert listens(port(server))
    assert not listens(port(server))
    server.close()


def test_a_server_that_does_not_listen_to_signals_is_ended_too(model: Path) -> None:
    with running(model, FAKE_STUBBORN="1") as server:
        pass
    assert not listens(port(server))


def test_a_server_that_cannot_load_is_told_with_its_last_lines(model: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"ended before it had loaded:\n.*loading model\n.*error: out of memory"
    ):
        start_llama_server(
            FAKE,
            model,
            window=None,
            log=model.parent / "server.log",
            environment={**ENVIRONMENT, "FAKE_FAULT": "out of memory"},
        )


def test_a_server_that_never_comes_to_its_end_of_loading_is_ended(model: Path) -> None:
    ticks = iter(range(0, 10_000, 100))
    with pytest.raises(ConfigError, match="has not loaded"):
        start_llama_server(
            FAKE,
            model,
            window=None,
            log=model.parent / "server.log",
            environment={**ENVIRONMENT, "FAKE_LOADING": "1000"},
            clock=lambda: next(ticks),
        )


@pytest.mark.parametrize(("content", "said"), [(b"PK\3\4", "no GGUF file"), (None, "cannot be read")])
def test_what_is_no_model_file_is_refused_before_anything_starts(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "model.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=said):
        start_llama_server(FAKE, path, window=None, log=tmp_path / "log", environment=ENVIRONMENT)
    assert not (tmp_path / "log").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from chimera.models.llama_server import start_llama_server
server = start_llama_server(
    Path(sys.argv[1]), Path(sys.argv[2]), window=None, log=Path(sys.argv[3]), environment={"PATH": sys.argv[4]}
)
print(server.api_base, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_server_ends_when_chimera_is_killed(model: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, FAKE, model, tmp_path / "log", ENVIRONMENT["PATH"]],
        capture_output=True,
        text=True,
        check=False,
        env=dict(process_environment()),
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    found = urlsplit(done.stdout.strip()).port
    assert found is not None
    assert eventually(lambda: not listens(found))


def test_the_program_is_found_on_the_path_or_where_the_environment_says(tmp_path: Path) -> None:
    inside, outside = tmp_path / "work", tmp_path / "bin"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "llama-server").symlink_to("/bin/true")
    path = f"{inside}{os.pathsep}{outside}"
    assert find_llama_server({"PATH": path}, outside=inside) == outside / "llama-server"
    assert find_llama_server({"PATH": "", PROGRAM_VARIABLE: str(FAKE)}, outside=inside) == FAKE
    with pytest.raises(ConfigError, match="Ways to get it"):
        find_llama_server({"PATH": str(inside)}, outside=inside)
    for wrong in ("llama-server", str(tmp_path)):
        with pytest.raises(ConfigError, match="must be the absolute path of a program"):
            find_llama_server({PROGRAM_VARIABLE: wrong}, outside=inside)
