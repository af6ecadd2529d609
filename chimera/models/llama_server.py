"""A `llama-server` of our own for a model file: started on loopback, asked whether it is ready, ended with the run."""

from __future__ import annotations

import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from msgspec import Struct

from chimera.core.model import Completion, Model, OnText, Request, Window
from chimera.errors import ConfigError, ModelError
from chimera.models.stream import priced
from chimera.workspace.programs import DEFAULT_PATH, find_program

PROGRAM = "llama-server"
PROGRAM_VARIABLE = "CHIMERA_LLAMA_SERVER"
"""Environment variable with the path of the program, where it is not on PATH."""
DEFAULT_WINDOW = 8_192
"""Tokens that a server is started with where no window is asked for: about 1 GiB of memory beside a 1.5B model."""
LOADING_TIMEOUT_S = 300.0
# The prompt cache may grow to 8 GiB by default, which a laptop does not have to spare.
_CACHE_MIB = 512
_POLL_S = 0.05
_END_TIMEOUT_S = 5.0
# How long its end may take to be noticed behind the connection that broke.
_NOTICED_S = 0.5
_LOG_TAIL = 5
# Ends the server when the other end of standard input is closed, as it is when chimera is gone, however it went, and
# ends itself when the server has ended. It leads a session of its own, so that `kill 0` reaches no one else.
_KEEPER = """
exec 3<&0
"$@" </dev/null 3<&- & server=$!
(read -r _ <&3; kill "$server"; sleep 3; kill -9 "$server") &
wait "$server"
kill 0
"""
INSTALL = (
    "Ways to get it: brew install llama.cpp; a release of llama.cpp for your system, unpacked into a folder on PATH; or "
    "build it: cmake -S . -B build && cmake --build build --target llama-server. "
    f"{PROGRAM_VARIABLE}=/path/to/llama-server names one that is not on PATH. Ollama, LM Studio and vLLM are found on "
    "their usual ports without any of this."
)


class LlamaServer(Struct, kw_only=True):
    """A running server. `api_base` ends in /v1; `name` is what its model is called."""

    name: str
    api_base: str
    log: Path
    _keeper: subprocess.Popen[bytes]

    @property
    def runs(self) -> bool:
        """Whether it has not ended yet."""
        return self._keeper.poll() is None

    def last_words(self) -> str | None:
        """The end of its log where it has ended by itself; None while it runs."""
        try:
            self._keeper.wait(_NOTICED_S)
        except subprocess.TimeoutExpired:
            return None
        return _last_lines(self.log)

    def close(self) -> None:
        """End the server. Harmless when it has ended."""
        if self._keeper.stdin is not None:
            with suppress(OSError):
                self._keeper.stdin.close()
        try:
            self._keeper.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._keeper.pid, signal.SIGKILL)
            self._keeper.wait()


class ServedModel:
    """A model behind a server of our own: it costs nothing, and where its server has ended, no retry helps."""

    def __init__(self, model: Model, server: LlamaServer, *, takes_tools: bool | None = None) -> None:
        """The server is started and stays the caller's to end."""
        self._model = model
        self._server = server
        self.takes_tools = takes_tools

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def window(self) -> Window | None:
        return self._model.window

    def complete(self, request: Request, on_text: OnText) -> Completion:
        """As the model.

        Raises:
            ModelError: as the model; one that says how the server ended, where it has.
        """
        try:
            return priced(self._model.complete(request, on_text), 0.0)
        except ModelError as error:
            said = self._server.last_words()
            if said is None:
                raise
            raise ModelError(
                f"{PROGRAM} has ended in the middle of the run, often for want of memory, of which a smaller --window "
                f"takes less. Its last words:{said}"
            ) from error


def find_llama_server(environment: Mapping[str, str], *, outside: Path) -> Path:
    """The program: the one that the environment names, else the first on PATH that is not in the workspace.

    Raises:
        ConfigError: there is none. The message says how to get one.
    """
    if named := environment.get(PROGRAM_VARIABLE):
        path = Path(named).expanduser()
        if not (path.is_absolute() and path.is_file() and os.access(path, os.X_OK)):
            raise ConfigError(f"{PROGRAM_VARIABLE} is {named!r}; it must be the absolute path of a program")
        return path
    found = find_program(PROGRAM, environment.get("PATH", DEFAULT_PATH), outside=outside)
    if found is None:
        raise ConfigError(f"local models need {PROGRAM}, which was not found on PATH. {INSTALL}")
    return found


def has_llama_server(environment: Mapping[str, str]) -> bool:
    """Whether the program can be found, wherever it is."""
    return bool(
        environment.get(PROGRAM_VARIABLE) or shutil.which(PROGRAM, path=environment.get("PATH", DEFAULT_PATH))
    )


def start_llama_server(
    program: Path,
    model: Path,
    *,
    window: int | None,
    log: Path,
    environment: Mapping[str, str],
    waiting: Callable[[float], None] = lambda seconds: None,
    clock: Callable[[], float] = time.monotonic,
) -> LlamaServer:
    """Start a server for a model file and wait until it has loaded it.

    Args:
        program: the server.
        model: a GGUF file.
        window: tokens of prompt and completion together.
        log: where its output goes; an older one is replaced.
        environment: of the server.
        waiting: told how long the loading has taken, many times a second.
        clock: seconds.

    Raises:
        ConfigError: the file is no model, or the server ended or took too long; the message ends with its last lines.
    """
    check_model_file(model)
    name = model.stem
    port = _free_port()
    command = [
        *(str(program), "--model", str(model), "--alias", name, "--host", "127.0.0.1", "--port", str(port)),
        *("--ctx-size", str(window or DEFAULT_WINDOW), "--parallel", "1", "--jinja", "--offline"),
        *("--cache-ram", str(_CACHE_MIB)),
    ]
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log.open("wb") as output:
        keeper = subprocess.Popen(
            ["/bin/sh", "-c", _KEEPER, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Two spinning threads on shared cores slow one another down to a hundredth.
            env={**environment, "OMP_WAIT_POLICY": "PASSIVE"},
            start_new_session=True,
        )
    server = LlamaServer(name=name, api_base=f"http://127.0.0.1:{port}/v1", log=log, _keeper=keeper)
    began = clock()
    try:
        while not _is_ready(port):
            waited = clock() - began
            if not server.runs:
                raise ConfigError(f"{shlex.join(command)} ended before it had loaded:{_last_lines(log)}")
            if waited > LOADING_TIMEOUT_S:
                raise ConfigError(
                    f"{PROGRAM} has not loaded {str(model)!r} in {LOADING_TIMEOUT_S:.0f} s:{_last_lines(log)}"
                )
            waiting(waited)
            time.sleep(_POLL_S)
    except BaseException:
        server.close()
        raise
    return server


_kept: ContextVar[dict[tuple[Path, Path, int | None], LlamaServer] | None] = ContextVar("_kept", default=None)


@contextmanager
def servers_kept() -> Iterator[None]:
    """In here the server of a model that is given up runs on for the next one of the same file: what it has read stays read."""
    kept: dict[tuple[Path, Path, int | None], LlamaServer] = {}
    token = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(token)
        for server in kept.values():
            server.close()


@contextmanager
def lent_server(
    program: Path,
    model: Path,
    *,
    window: int | None,
    log: Path,
    environment: Mapping[str, str],
    starting: Callable[[], None],
) -> Iterator[LlamaServer]:
    """A server as `start_llama_server` starts it, ended on leaving; where servers are kept, the one that runs already.

    Raises:
        ConfigError: as `start_llama_server`.
    """
    kept, key = _kept.get(), (program, model, window)
    server = kept.get(key) if kept is not None else None
    if server is None or not server.runs:
        # One at a time: memory is short.
        for earlier in (*kept.values(),) if kept is not None else ():
            earlier.close()
        starting()
        server = start_llama_server(program, model, window=window, log=log, environment=environment)
        if kept is not None:
            kept.clear()
            kept[key] = server
    try:
        yield server
    finally:
        if kept is None:
            server.close()


def check_model_file(path: Path) -> None:
    """Refuse what is no GGUF file before a server tries to load it.

    Raises:
        ConfigError: what is wrong with it.
    """
    try:
        # A pipe is not waited for: it is empty.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            magic = os.read(opened, 4)
        finally:
            os.close(opened)
    except OSError as fault:
        raise ConfigError(f"the model file {str(path)!r} cannot be read: {fault.strerror}") from fault
    if magic != b"GGUF":
        raise ConfigError(f"{str(path)!r} is no GGUF file: it begins with {magic!r}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2.0)
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        return response.status == 200 and isinstance(json.loads(response.read(10_000)), dict)
    except (OSError, ValueError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_lines(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
    except OSError:
        return ""
    return "".join(f"\n  {line[:200]}" for line in lines) + f"\n  (all of it: {log})"
