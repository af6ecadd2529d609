"""The profile for macOS, as text: what it says, never what a Mac makes of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chimera.config import process_environment
from chimera.errors import SandboxUnavailableError
from chimera.workspace.sandbox import Sandbox, open_sandbox
from chimera.workspace.seatbelt import plan_seatbelt, rule

ROOT = Path("/Users/me/work (1)")
HOME = {"HOME": "/Users/me"}


def profile(*, writable: bool = True, allow_net: bool = False, allow_git_write: bool = False) -> str:
    plan = plan_seatbelt(
        ROOT, writable=writable, allow_net=allow_net, allow_git_write=allow_git_write, environment=HOME
    )
    assert "never tried" in plan.missing[0]
    return plan.profile


def denied(text: str, path: str) -> bool:
    """Whether a rule by pattern denies writing a path."""
    patterns = re.findall(r'\(deny file-write\* \(regex #"(.*)"\)\)', text)
    assert patterns
    return any(re.search(pattern, path) for pattern in patterns)


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("allow_net", [True, False])
def test_everything_is_denied_at_first_and_parentheses_match(writable: bool, allow_net: bool) -> None:
    text = profile(writable=writable, allow_net=allow_net)
    bare = re.sub(r'#?"[^"]*"', "", text)

    assert text.splitlines()[:2] == ["(version 1)", "(deny default)"]
    assert all(line.count("(") == line.count(")") for line in bare.splitlines())
    assert ('(allow file-write* (subpath "/Users/me/work (1)"))' in text) == writable
    assert ("network" in text) == allow_net


def test_the_home_is_closed_before_toolchains_and_the_workspace_are_opened() -> None:
    lines = profile().splitlines()
    closed = next(
        n for n, line in enumerate(lines) if line.startswith('(deny file-read-data (subpath "/Users/me")')
    )
    cargo = lines.index('(allow file-read-data (subpath "/Users/me/.cargo"))')
    keys = next(n for n, line in enumerate(lines) if '(subpath "/Users/me/.cargo/credentials")' in line)
    workspace = lines.index('(allow file-read-data (subpath "/Users/me/work (1)"))')

    assert lines.index("(allow file-read*)") < closed < cargo < keys < workspace


@pytest.mark.parametrize(
    "path", [".git", ".git/config", "a/b/.git/hooks/x", "dep2/.GIT/config", ".git/index"]
)
def test_no_git_folder_is_written_wherever_it_is_moved_and_however_it_is_spelled(path: str) -> None:
    assert denied(profile(), f"{ROOT}/{path}")


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/x", "a.git/x", "git", "x.gitx/config", ".git2/config"]
)
def test_what_only_resembles_one_is(path: str) -> None:
    assert not denied(profile(), f"{ROOT}/{path}")


def test_allowed_writing_of_git_leaves_its_settings_and_hooks() -> None:
    text = profile(allow_git_write=True)

    for name in (
        "config",
        "config.worktree",
        "commondir",
        "hooks/pre-commit",
        "Info/attributes",
        "modules/a/config",
    ):
        assert denied(text, f"{ROOT}/dep/.git/{name}")
    for name in ("index", "index.lock", "objects/ab/cdef", "refs/heads/main", "HEAD", "configure"):
        assert not denied(text, f"{ROOT}/.git/{name}")
    (moving,) = re.findall(r'\(deny file-write-unlink \(regex #"(.*)"\)\)', text)
    assert re.search(moving, f"{ROOT}/dep/.git")


def test_paths_are_spelled_as_the_kernel_and_as_people_do_and_end_no_literal() -> None:
    assert rule("deny file-read*", "subpath", Path("/private/tmp/x")) == (
        '(deny file-read* (subpath "/private/tmp/x") (subpath "/tmp/x"))'
    )
    assert (
        rule("allow x", "literal", Path("/var/y"))
        == '(allow x (literal "/var/y") (literal "/private/var/y"))'
    )
    assert rule("allow x", "literal", Path('/a"b\\c')) == '(allow x (literal "/a\\"b\\\\c"))'


def test_a_narrowed_sandbox_has_its_rules_last() -> None:
    sandbox = Sandbox(
        level="workspace-write", backend="seatbelt", missing=(), prefix=("s", "-p", "(version 1)")
    )

    narrowed = sandbox.narrowed(hidden=[Path("/h")], read_only=[Path("/r")], masked=[Path("/w/.env")])
    with narrowed.with_scratch(Path("/s")).confine(["ls"]) as confined:
        program, option, text, *command = confined.arguments

    assert (program, option) == ("s", "-p")
    assert text.splitlines() == [
        "(version 1)",
        '(deny file-read* file-write* (subpath "/h"))',
        '(deny file-write* (subpath "/r"))',
        '(deny file-read* file-write* (literal "/w/.env"))',
        '(allow file-read* file-write* (subpath "/s"))',
    ]
    assert command == ["/usr/bin/env", "TMPDIR=/s", "XDG_CACHE_HOME=/s/.cache", "ls"]


class TestOpening:
    @pytest.fixture
    def program(self, tmp_path: Path) -> Path:
        """In place of the one of macOS: confines nothing, and refuses to name what it is not to write."""
        program = tmp_path / "bin" / "sandbox-exec"
        program.parent.mkdir()
        program.write_text('#!/bin/sh\ncase "$*" in *victim*) exit 1;; esac\nshift 2\nexec "$@"\n')
        program.chmod(0o755)
        return program

    def open(self, program: Path) -> Sandbox:
        root = program.parents[1] / "workspace"
        root.mkdir()
        return open_sandbox(
            "workspace-write",
            root.resolve(),
            allow_net=False,
            allow_git_write=False,
            required=True,
            environment=process_environment(),
            trusted_path=str(program.parent),
            backends=("seatbelt",),
        )

    def test_what_lets_a_trial_write_outside_is_no_sandbox(self, program: Path) -> None:
        program.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')
        with pytest.raises(SandboxUnavailableError, match="commands write outside the workspace"):
            self.open(program)

    def test_what_refuses_is_taken_and_its_losses_are_told(self, program: Path) -> None:
        sandbox = self.open(program)

        assert (sandbox.backend, sandbox.needs_scratch) == ("seatbelt", True)
        assert "never tried" in sandbox.missing[0]

    def test_without_the_program_there_is_none(self, program: Path) -> None:
        program.unlink()
        with pytest.raises(SandboxUnavailableError, match="sandbox-exec was not found"):
            self.open(program)
