"""Commands do not read files that hold secrets, and nothing is left behind where there was none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import chimera
from chimera.config import process_environment
from chimera.testing import ScriptedModel, call, text
from chimera.workspace.environment import child_environment
from chimera.workspace.hidden_secrets import find_hidden_secrets, find_secrets_around, hide_secrets
from chimera.workspace.sandbox import Sandbox, SandboxBackend, open_sandbox

Git = Callable[..., str]
CANARY = "canary-90b2c7e1"


@pytest.fixture
def root(tmp_path: Path, git: Git) -> Path:
    root = tmp_path / "workspace"
    for name in ("deploy", "tests", ".venv/lib", "node_modules/tls"):
        (root / name).mkdir(parents=True)
    git(root, "init", "--quiet")
    (root / ".gitignore").write_text(".env*\n*.pem\n.venv/\nnode_modules/\n")
    for name in (
        ".env",
        ".env.example",
        "deploy/server.pem",
        "tests/fixture.pem",
        "prod.env",
        ".venv/lib/cacert.pem",
        "node_modules/tls/root.pem",
        "a.txt",
    ):
        (root / name).write_text(f"{CANARY}\n")
    (root / ".venv/pyvenv.cfg").write_text("")
    git(root, "add", "--force", "tests/fixture.pem")
    return root


def hidden(root: Path) -> list[str]:
    found = find_hidden_secrets(root, process_environment())
    assert found.missing == ()
    return [str(file.relative_to(root)) for file in found.files]


def run(root: Path, command: str, backend: SandboxBackend = "bwrap") -> subprocess.CompletedProcess[str]:
    sandbox = open_sandbox(
        "workspace-write",
        root,
        allow_net=False,
        allow_git_write=False,
        required=True,
        environment=process_environment(),
        backends=(backend,),
    ).narrowed(masked=find_hidden_secrets(root, process_environment()).files)
    return confined(sandbox, root, command)


def confined(sandbox: Sandbox, root: Path, command: str) -> subprocess.CompletedProcess[str]:
    with sandbox.confine(["bash", "-c", command]) as started:
        return subprocess.run(
            started.arguments,
            cwd=root,
            env=child_environment(process_environment()),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            pass_fds=started.descriptors,
        )


def test_ignored_files_with_secret_names_are_hidden_and_tracked_ones_and_libraries_are_not(
    root: Path,
) -> None:
    assert hidden(root) == [".env", "deploy/server.pem"]


def test_what_a_link_with_a_secret_name_leads_to_is_hidden(root: Path) -> None:
    (root / ".env").rename(root / "settings")
    (root / ".env").symlink_to("settings")
    (root / ".env.local").symlink_to("/etc/passwd")
    (root / ".gitignore").write_text(".env*\n*.pem\nsettings\n.venv/\nnode_modules/\n")
    assert hidden(root) == ["deploy/server.pem", "settings"]


def test_a_repository_in_the_workspace_has_rules_of_its_own(root: Path, git: Git) -> None:
    inner = root / "deploy" / "inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    (inner / ".env").write_text("x\n")
    assert hidden(root) == [".env", "deploy/server.pem"]
    (inner / ".gitignore").write_text(".env\n")
    assert hidden(root) == [".env", "deploy/inner/.env", "deploy/server.pem"]


def test_without_a_repository_every_file_with_such_a_name_is_hidden(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("x\n")
    (tmp_path / "id_rsa").write_text("x\n")
    (tmp_path / "a.txt").write_text("x\n")
    assert hidden(tmp_path.resolve()) == [".env", "id_rsa"]


@pytest.mark.usefixtures("bubblewrap")
def test_no_command_reads_changes_or_moves_a_hidden_file(root: Path) -> None:
    attacks = "cat .env deploy/*; mv .env x; rm -f .env; echo y >.env; mv deploy d2; cat d2/server.pem; cat /proc/self/root/$PWD/.env"
    done = run(root, f"{attacks}; ls -A; cat tests/fixture.pem")
    assert done.stdout.count(CANARY) == 1
    assert ".env: Permission denied" in done.stderr
    assert (root / ".env").read_text() == f"{CANARY}\n"


@pytest.mark.usefixtures("bubblewrap")
def test_no_command_moves_the_folder_of_a_hidden_file_to_where_the_next_reads_it(root: Path) -> None:
    (root / "conf" / "deep").mkdir(parents=True)
    (root / "conf" / "deep" / ".env").write_text(f"{CANARY}\n")
    sandbox = open_sandbox(
        "workspace-write",
        root,
        allow_net=False,
        allow_git_write=False,
        required=True,
        environment=process_environment(),
        backends=("bwrap",),
    ).narrowed(masked=find_hidden_secrets(root, process_environment()).files)

    confined(sandbox, root, "mkdir x; mv deploy d; mv conf/deep x/deep; mv conf c")
    told = confined(sandbox, root, "cat d/* x/deep/.env */.env c/deep/.env conf/deep/.env").stdout

    assert CANARY not in told
    assert (root / "conf" / "deep" / ".env").is_file()


@pytest.mark.usefixtures("bubblewrap")
def test_a_file_that_has_gone_meanwhile_leaves_no_trace(root: Path) -> None:
    sandbox = open_sandbox(
        "workspace-write",
        root,
        allow_net=False,
        allow_git_write=False,
        required=True,
        environment=process_environment(),
        backends=("bwrap",),
    ).narrowed(masked=find_hidden_secrets(root, process_environment()).files)
    (root / ".env").unlink()
    (root / "deploy" / "server.pem").unlink()
    (root / "deploy").rmdir()
    before = sorted(os.listdir(root))  # noqa: PTH208
    assert confined(sandbox, root, "cat a.txt").stdout == f"{CANARY}\n"
    assert sorted(os.listdir(root)) == before  # noqa: PTH208


@pytest.mark.usefixtures("landlock")
def test_landlock_cannot_hide_them_and_says_so(root: Path) -> None:
    sandbox = open_sandbox(
        "workspace-write",
        root,
        allow_net=False,
        allow_git_write=False,
        required=True,
        environment=process_environment(),
        backends=("landlock",),
    ).narrowed(masked=[root / ".env", root / "deploy" / "server.pem"])
    assert sandbox.missing[-1] == "commands can read files that hold secrets: .env, server.pem"


@pytest.mark.usefixtures("bubblewrap")
@pytest.mark.parametrize("shown", [False, True])
def test_a_run_says_what_it_hides_and_shows_it_where_it_is_asked_to(
    root: Path, tmp_path: Path, shown: bool
) -> None:
    model = ScriptedModel([call("shell", command="cat .env; cat a.txt"), text("ok")], window=32_000)
    result = chimera.run(
        "x", workspace=root, state=tmp_path / "state", model=model, mode="auto", allow_secret_files=shown
    )
    told = next(message.content for message in model.requests[-1].messages if message.role == "tool")
    assert told.count(CANARY) == 1 + shown
    assert (".env is hidden from commands" in told) == (not shown)
    (warning,) = [warning for warning in result.warnings if "--allow-secret-files" in warning]
    assert (".env, deploy/server.pem" in warning) == (not shown)


@pytest.mark.parametrize(
    ("mark", "secret"),
    [
        ("pyvenv.cfg", "app/.env"),
        ("app/pyvenv.cfg", "app/.env"),
        ("app/pyvenv.cfg", "app/conf/.env"),
        ("app/target/x", "app/target/conf/.env"),
        ("node_modules/x", "node_modules/.env"),
        ("site-packages/a/pyvenv.cfg", "site-packages/a/target/.env"),
    ],
)
def test_a_repository_cannot_call_its_folders_libraries(root: Path, git: Git, mark: str, secret: str) -> None:
    for name in (mark, secret):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    git(root, "add", "--force", mark)
    assert secret in hidden(root)
    assert ".venv/lib/cacert.pem" not in hidden(root)


def test_the_secret_files_beside_the_mark_of_a_library_are_hidden_without_a_repository_as_well(
    tmp_path: Path,
) -> None:
    (tmp_path / "app" / "lib").mkdir(parents=True)
    for name in ("pyvenv.cfg", ".env", "lib/cacert.pem"):
        (tmp_path / "app" / name).write_text("x\n")
    assert hidden(tmp_path.resolve()) == ["app/.env"]


@pytest.mark.usefixtures("bubblewrap")
def test_of_the_checkout_around_the_workspace_no_secret_is_read(root: Path, git: Git) -> None:
    (root / ".netrc").write_text(f"{CANARY}\n")
    git(root, "config", "remote.origin.fetch", "+refs/x")
    git(root, "config", "remote.origin.url", f"https://u:{CANARY}@example.org/x")
    git(root, "commit", "--quiet", "-m", "first")
    part = root / "part"
    part.mkdir()
    (part / ".env").write_text(f"{CANARY}\n")
    sandbox = open_sandbox(
        "workspace-write",
        part,
        allow_net=False,
        allow_git_write=False,
        required=True,
        environment=process_environment(),
        backends=("bwrap",),
    )

    told = confined(
        hide_secrets(sandbox, part, process_environment(), copies=root.parent / "copies"),
        part,
        "cat ../.env ../deploy/* ../prod.env ../.netrc .env; grep canary ../.git/config; git log --format=%s; git config remote.origin.fetch; cat ../tests/*",
    ).stdout

    assert told == f"first\n+refs/x\n{CANARY}\n"


def test_where_the_home_is_the_checkout_around_it_is_not_searched(root: Path) -> None:
    (root / "part").mkdir()
    assert find_secrets_around(root / "part", {"HOME": str(root / "deploy"), "PATH": "/usr/bin"}).files == ()
    assert find_secrets_around(root / "part", process_environment()).files != ()
