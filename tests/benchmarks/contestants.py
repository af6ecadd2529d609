"""Who takes part in the comparison of speeds, and how each is started against a server on the loopback interface."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

WINDOW = 2_000_000
"""So large that nobody shortens the history."""
_LOOPS = Path(__file__).with_name("reference_loops.py")
_WAYS = ("http.client", "httpx", "litellm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a program is started with."""

    arguments: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A program that runs commands which a model asks for."""

    name: str
    start: Callable[[str, Path, Path, str], Start]
    """From the address of the server, a home of its own, the workspace and the task."""
    last: str | None = None
    """The command that ends a run; None: a reply without a call does."""
    confined: bool = False
    """It runs commands in a sandbox and keeps snapshots; measured in a larger repository, and nobody is compared with it."""


def contestants(programs: Mapping[str, str]) -> list[Contestant]:
    """chimera, the reference loops, and those peers that are installed.

    Args:
        programs: executables by the name of the peer, or `chimera`; others are looked for on PATH.
    """
    chimera = programs.get("chimera", str(Path(sys.executable).with_name("chimera")))
    found = [
        Contestant(name="chimera", start=_chimera(chimera, "direct")),
        Contestant(name="chimera litellm", start=_chimera(chimera, "litellm")),
        Contestant(name="chimera confined", start=_chimera(chimera, "direct", confined=True), confined=True),
        *(Contestant(name=f"loop {way}", start=_loop(way)) for way in _WAYS),
    ]
    for kind, (command, start, last) in _PEERS.items():
        named = {name: path for name, path in programs.items() if name.partition(":")[0] == kind}
        if not named and (path := shutil.which(command)):
            named = {kind: path}
        found += [Contestant(name=name, start=_peer(start, path), last=last) for name, path in named.items()]
    return found


def _chimera(
    program: str, adapter: str, *, confined: bool = False
) -> Callable[[str, Path, Path, str], Start]:
    safety = ["workspace-write"] if confined else ["danger-full-access", "--mode", "yolo"]

    def start(url: str, home: Path, workspace: Path, task: str) -> Start:
        server = ["--model", "openai/fake", "--api-base", url, "--adapter", adapter, "--window", str(WINDOW)]
        limits = ["--max-steps", "1000", "--sandbox", *safety, "-q"]
        return Start(
            arguments=[program, "run", task, *server, "--workspace", str(workspace), *limits],
            environment={"CHIMERA_STATE_DIR": str(home / "state")},
        )

    return start


def _loop(way: str) -> Callable[[str, Path, Path, str], Start]:
    return lambda url, home, workspace, task: Start(arguments=[sys.executable, str(_LOOPS), way, url, task])


def _peer(
    start: Callable[[str, str, Path, Path, str], Start], program: str
) -> Callable[[str, Path, Path, str], Start]:
    return lambda url, home, workspace, task: start(program, url, home, workspace, task)


def _mini(program: str, url: str, home: Path, workspace: Path, task: str) -> Start:
    settings = ["-c", "mini.yaml", "-c", f"model.model_kwargs.api_base={url}", "-o", str(home / "out.json")]
    return Start(
        arguments=[
            program,
            "-m",
            "openai/fake",
            "-t",
            task,
            "-y",
            "-l",
            "0",
            "--exit-immediately",
            *settings,
        ],
        environment={
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": str(home / "mini"),
        },
    )


def _pi(program: str, url: str, home: Path, workspace: Path, task: str) -> Start:
    folder = home / "pi"
    folder.mkdir(exist_ok=True)
    model = {"id": "fake", "contextWindow": WINDOW, "maxTokens": 4096, "reasoning": False}
    provider = {"baseUrl": url, "api": "openai-completions", "apiKey": "k", "models": [model]}
    (folder / "models.json").write_text(json.dumps({"providers": {"fake": provider}}), encoding="utf-8")
    return Start(
        arguments=[*program.split(), "--offline", "--provider", "fake", "--model", "fake", "-p", task],
        environment={"PI_CODING_AGENT_DIR": str(folder), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
    )


def _codex(program: str, url: str, home: Path, workspace: Path, task: str) -> Start:
    folder = home / "codex"
    folder.mkdir(exist_ok=True)
    settings: Iterable[str] = (
        'model="fake"',
        'model_provider="fake"',
        f"model_context_window={WINDOW}",
        'model_providers.fake.name="fake"',
        f'model_providers.fake.base_url="{url}"',
        'model_providers.fake.wire_api="responses"',
        'model_providers.fake.env_key="OPENAI_API_KEY"',
    )
    options = [word for setting in settings for word in ("-c", setting)]
    return Start(
        arguments=[program, "exec", "--dangerously-bypass-approvals-and-sandbox", *options, task],
        environment={"CODEX_HOME": str(folder)},
    )


_PEERS: Mapping[str, tuple[str, Callable[[str, str, Path, Path, str], Start], str | None]] = {
    "mini": ("mini", _mini, "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    "pi": ("pi", _pi, None),
    "codex": ("codex", _codex, None),
}
"""By kind: the name of its program, how it is started, and the command that ends a run."""
