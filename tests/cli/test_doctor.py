"""The doctor, and T25 of the threat model: what happens where no sandbox works."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from chimera.cli.doctor import show_guarantees
from chimera.cli.terminal import Terminal
from chimera.config import process_environment
from chimera.workspace.escapes import DESCRIPTIONS, Trial
from chimera.workspace.landlock import landlock_abi
from tests.cli.command import Chimera, Script
from tests.unconfinable import unconfinable, without_namespaces

pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the backends are of Linux"),
    # In one worker with the other tests that look for what the escapes put into the system for a moment.
    pytest.mark.xdist_group("escapes"),
]
KEY = "sk-ant-canary-0123456789"


def without_a_sandbox(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = unconfinable([sys.executable, "-m", "chimera", *arguments])
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("columns", [40, 80])
def test_no_verdict_is_cut_off_on_a_narrow_terminal(columns: int) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    held = dict.fromkeys(DESCRIPTIONS, True)
    trials = [
        Trial(backend="bwrap", held={**held, "tcp": False}, fault=""),
        Trial(backend="landlock", held=held, fault=""),
    ]
    with open(theirs, "w", encoding="utf-8") as stream:  # noqa: PTH123  (a descriptor)
        show_guarantees(Terminal(stream, {"NO_COLOR": "1"}), trials)
        stream.write("end")
        stream.flush()
        written = b""
        while not written.endswith(b"end"):
            written += os.read(ours, 65_536)
    os.close(ours)
    lines = written.decode().removesuffix("end").splitlines()
    shown = " ".join(" ".join(lines).split())
    assert shown.count("holds") == 2 * len(DESCRIPTIONS) - 1
    assert shown.count("LOST") == 1
    assert max(map(len, lines)) < columns
    assert all(text in shown for text in DESCRIPTIONS.values())


@pytest.mark.usefixtures("repository")
class TestDoctor:
    def test_the_report_names_keys_and_never_shows_one(
        self, chimera: Chimera, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)

        ended = chimera("doctor", "--output-format", "json")

        assert ended.result["keys"] == ["ANTHROPIC_API_KEY"]
        assert ended.result["model"]["name"].startswith("anthropic/")
        assert ended.result["model"]["window"] > 0
        assert KEY not in ended.out + ended.err

    def test_the_verdict_is_that_of_the_backends(self, chimera: Chimera) -> None:
        ended = chimera("doctor", "--output-format", "json")

        works = {b["backend"]: b["works"] for b in ended.result["sandbox"]["backends"]}
        assert set(works) == {"bwrap", "landlock"}
        assert ended.code == ended.result["exit_code"] == (0 if any(works.values()) else 13)
        chosen = next((backend for backend, good in works.items() if good), "none")
        assert ended.result["sandbox"]["backend"] == chosen

    def test_the_text_says_what_holds_with_each_backend_that_works(self, chimera: Chimera) -> None:
        facts = chimera("doctor", "--output-format", "json").result

        ended = chimera("doctor")

        for backend in facts["sandbox"]["backends"]:
            assert (backend["backend"] in ended.out.split("escapes tried just now", 1)[1]) or backend["fault"]
        if any(b["works"] for b in facts["sandbox"]["backends"]):
            assert "files outside the workspace are not written" in ended.out
            assert "would start here" in ended.out
        assert "keys      none set" in ended.out
        assert "git       2." in ended.out

    def test_a_model_that_cannot_be_had_is_told_and_leaves_the_verdict_alone(
        self, chimera: Chimera, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CHIMERA_MODEL", "anthropic/claude-sonnet-5-5")
        monkeypatch.setenv("CHIMERA_SANDBOX", "danger-full-access")

        ended = chimera("doctor", "--output-format", "json")

        assert ended.code == 0
        assert ended.result["model"]["name"] is None
        assert "ANTHROPIC_API_KEY is not set" in ended.result["model"]["fault"]

    def test_model_files_with_a_name_and_what_serves_them_are_told(
        self, chimera: Chimera, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        model, server = tmp_path / "tiny.gguf", tmp_path / "llama-server"
        model.write_bytes(b"GGUF")
        server.write_text("#!/bin/sh\n")
        server.chmod(0o755)
        monkeypatch.setenv("CHIMERA_SANDBOX", "danger-full-access")
        assert chimera("local", "add", str(model)).code == 0
        assert chimera("doctor", "--output-format", "json").result["local"]["models"] == {"tiny": str(model)}

        monkeypatch.setenv("CHIMERA_LLAMA_SERVER", str(server))
        ended = chimera("doctor")

        assert f"local     {server} · models: tiny" in ended.out
        assert "model     local:tiny" in ended.out

        Path(chimera("doctor", "--output-format", "json").result["state_dir"], "models.json").write_text("{")
        assert f"local     {server} · " in (told := chimera("doctor").out)
        assert "mend or remove it" in told.partition("local     ")[2]

    def test_an_unwritable_state_directory_is_a_problem(
        self, chimera: Chimera, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("CHIMERA_STATE_DIR", str(tmp_path / "file" / "state"))
        monkeypatch.setenv("CHIMERA_SANDBOX", "danger-full-access")

        ended = chimera("doctor", "--output-format", "json")

        assert ended.code == 15
        assert "cannot be written" in ended.result["problems"][0]

    def test_nothing_heavy_is_loaded(self) -> None:
        code = (
            "import sys\nfrom chimera.cli.entry import run_command_line\nrun_command_line(['doctor'])\n"
            "print(sorted({'litellm', 'openai', 'tiktoken', 'git', 'rich'} & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

        assert done.stdout.splitlines()[-1] == "[]"

    def test_a_machine_without_any_sandbox_is_told_how_to_get_one(self) -> None:
        done = without_a_sandbox("doctor", "--output-format", "json")

        facts = json.loads(done.stdout)
        assert (done.returncode, facts["exit_code"]) == (13, 13)
        assert not any(b["works"] for b in facts["sandbox"]["backends"])
        assert "Landlock is not offered by this kernel" in facts["problems"][0]
        assert "--sandbox danger-full-access" in facts["problems"][0]


class TestT25:
    @pytest.fixture
    def model(self, script: Script) -> str:
        return script([{"call": "shell", "arguments": {"command": "touch ran"}}, {"text": "Done."}])

    def test_t25_auto_without_a_backend_runs_nothing_and_stops_with_13(
        self, repository: Path, model: str
    ) -> None:
        done = without_a_sandbox("run", "x", "--model", model, "--mode", "auto", "--output-format", "json")

        assert done.returncode == 13
        assert json.loads(done.stdout)["stop_reason"] == "sandbox_unavailable"
        assert not (repository / "ran").exists()

    def test_t25_full_access_runs_without_a_backend_and_is_recorded_so(
        self, repository: Path, model: str
    ) -> None:
        done = without_a_sandbox(
            *("run", "x", "--model", model, "--mode", "auto", "--sandbox", "danger-full-access"),
            *("--output-format", "json"),
        )

        result = json.loads(done.stdout)
        events = Path(result["run_dir"], "events.jsonl").read_text(encoding="utf-8").splitlines()
        (started,) = (e for e in map(json.loads, events) if e["type"] == "run_started")
        assert done.returncode == 0
        assert (repository / "ran").exists()
        assert (started["sandbox"]["level"], started["sandbox"]["backend"]) == ("danger-full-access", "none")

    def test_t25_landlock_alone_is_enough_and_its_losses_are_in_the_header(
        self, repository: Path, model: str
    ) -> None:
        if landlock_abi() == 0 and process_environment().get("CI") != "true":
            pytest.skip("this kernel offers no Landlock")
        argv = [sys.executable, "-m", "chimera", "run", "x", "--model", model, "--mode", "auto"]
        argv = without_namespaces([*argv, "--output-format", "json"])
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=100)

        result = json.loads(done.stdout)
        events = Path(result["run_dir"], "events.jsonl").read_text(encoding="utf-8").splitlines()
        (started,) = (e for e in map(json.loads, events) if e["type"] == "run_started")
        assert done.returncode == 0
        assert (repository / "ran").exists()
        assert started["sandbox"]["backend"] == "landlock"
        assert any("keys in your home included" in sentence for sentence in started["sandbox"]["missing"])
