"""Landlock by version of its interface, limits, and what the helper hands on to the command."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimera.config import process_environment
from chimera.workspace.environment import child_environment
from chimera.workspace.landlock import landlock_abi, plan_landlock
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import Sandbox, SandboxBackend, open_sandbox
from tests.unconfinable import without_landlock

pytestmark = pytest.mark.usefixtures("landlock")
ABIS = range(1, 8)


class Place:
    """A workspace whose commands are confined as a kernel with this version would."""

    def __init__(self, folder: Path, abi: int = 7, *, writable: bool = True, allow_net: bool = False) -> None:
        self.root = folder / "workspace"
        self.outside = folder / "outside"
        for place in (self.root, self.outside):
            place.mkdir()
        (self.outside / "f").write_text("text")
        plan = plan_landlock(self.root, writable=writable, allow_net=allow_net, abi=abi)
        self.missing = plan.missing
        sandbox = Sandbox(
            level="workspace-write",
            backend="landlock",
            missing=plan.missing,
            prefix=plan.prefix,
            inner=("--",),
        )
        self.runner = CommandRunner(self.root, sandbox, child_environment(process_environment()), folder)

    def run(self, command: str) -> str:
        return self.runner.run(command, 60).output.decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture(params=ABIS)
def place(folder: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param > landlock_abi():
        pytest.skip(f"this kernel offers version {landlock_abi()} only")
    opened = Place(folder, request.param)
    yield opened
    opened.runner.close()


def test_every_version_keeps_the_outside_as_it_is(place: Place) -> None:
    out = place.outside
    place.run(
        f"echo x > {out}/f; : > {out}/f; truncate -s 0 {out}/f; rm {out}/f; mv {out}/f g; mkdir {out}/d; ln -s x {out}/l"
    )
    place.run(f"{sys.executable} -c \"import os; os.truncate('{out}/f', 0)\"; ln {out}/f hard; echo x > hard")

    assert {p.name: p.read_text() for p in out.iterdir()} == {"f": "text"}


def test_every_version_lets_a_build_work(place: Place) -> None:
    told = place.run(
        "mkdir -p d/e && echo x > d/e/f && mv d/e/f d/e/g && ln -s g d/e/l && cat d/e/l && echo y >> d/e/g && rm -r d"
        " && mktemp > /dev/null && head -c 3 /dev/zero > z && : > z && echo gone 2> /dev/null && ls"
    )

    assert told == "x\ngone\nz\n"


def test_files_move_between_folders_from_the_second_version_on(place: Place) -> None:
    told = place.run("mkdir a b; touch a/f; mv a/f b/f && ln b/f a/g && echo moved")

    lost = any("cannot move or link files" in sentence for sentence in place.missing)
    if lost:
        # mv copies where a link cannot be made; a hard link has no such way.
        assert not (place.root / "a" / "g").exists()
    else:
        assert told == "moved\n"


def test_signals_stop_at_the_border_from_the_sixth_version_on(place: Place) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        place.run(f"kill -KILL {victim.pid}")
        lost = any("send signals" in sentence for sentence in place.missing)
        killed = victim.wait(10) == -9 if lost else victim.poll() is not None
        victim.kill()

    assert killed == lost


def test_a_read_only_level_writes_nothing_but_temporary_files(folder: Path) -> None:
    place = Place(folder, writable=False)

    told = place.run("echo x > f; mkdir d; echo y > $TMPDIR/g && cat $TMPDIR/g")

    assert told.endswith("y\n")
    assert list(place.root.iterdir()) == []
    place.runner.close()


def test_temporary_files_are_private_and_go_with_the_runner(folder: Path) -> None:
    place = Place(folder)

    told = place.run("echo x > $TMPDIR/f; mkdir -p $XDG_CACHE_HOME; echo $TMPDIR; stat -c %a $TMPDIR")
    kept = place.run("cat $TMPDIR/f")
    scratch, mode = told.split()
    place.runner.close()

    assert (mode, kept) == ("700", "x\n")
    assert not Path(scratch).exists()
    assert place.run("mktemp -d").startswith("/")
    place.runner.close()


def test_allowed_network_is_told_to_be_without_bounds(folder: Path) -> None:
    place = Place(folder, allow_net=True)
    told = place.run(
        f"{sys.executable} -c \"import socket; socket.create_server(('127.0.0.1', 0)); print('made')\""
    )

    place.runner.close()

    assert told == "made\n"
    assert any("Docker" in sentence for sentence in place.missing)


def test_broken_pipes_end_a_command_as_usual(folder: Path) -> None:
    place = Place(folder)
    told = place.run("yes | head -1; echo ${PIPESTATUS[0]}; trap")
    place.runner.close()

    assert told == "y\n141\n"


def test_a_command_that_does_not_exist_is_told_as_by_a_shell(folder: Path) -> None:
    plan = plan_landlock(folder, writable=True, allow_net=False, abi=1)

    done = subprocess.run(
        [*plan.prefix, "--", "no-such-program"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (127, "no-such-program: No such file or directory\n")


def test_a_command_that_cannot_be_confined_is_not_run(folder: Path) -> None:
    plan = plan_landlock(folder / "gone", writable=True, allow_net=False, abi=1)

    done = subprocess.run(
        [*plan.prefix, "--", "touch", str(folder / "f")], capture_output=True, text=True, check=False
    )

    assert done.returncode == 126
    assert "could not be confined, so it was not run" in done.stderr
    assert not (folder / "f").exists()


def test_a_kernel_without_landlock_is_found_out() -> None:
    code = "from chimera.workspace.landlock import landlock_abi; print(landlock_abi())"

    done = subprocess.run(
        without_landlock([sys.executable, "-c", code]), capture_output=True, text=True, check=True
    )

    assert done.stdout == "0\n"


def test_a_python_in_the_workspace_confines_nothing(folder: Path) -> None:
    sandbox = open_sandbox(
        "workspace-write",
        Path(os.path.realpath(sys.base_prefix)),
        allow_net=False,
        allow_git_write=False,
        required=False,
        environment=process_environment(),
        backends=("landlock",),
    )

    assert sandbox.backend == "none"
    assert "needs a Python outside the workspace" in sandbox.missing[0]


def test_what_landlock_cannot_narrow_is_said(folder: Path) -> None:
    sandbox = Sandbox(level="workspace-write", backend="landlock", missing=("before",))

    narrowed = sandbox.narrowed(hidden=[folder / "a"], read_only=[folder / "b"])

    assert narrowed.missing == (
        "before",
        f"commands can read {folder / 'a'}",
        f"commands can change {folder / 'b'}",
    )


@pytest.mark.parametrize("backend", ["bwrap", "landlock"])
class TestLimits:
    @pytest.fixture
    def runner(
        self, folder: Path, backend: SandboxBackend, request: pytest.FixtureRequest
    ) -> Iterator[CommandRunner]:
        if backend == "bwrap":
            request.getfixturevalue("bubblewrap")
        root = folder / "workspace"
        root.mkdir()
        sandbox = open_sandbox(
            "workspace-write",
            root,
            allow_net=False,
            allow_git_write=False,
            required=True,
            environment=process_environment(),
            backends=(backend,),
        )
        opened = CommandRunner(root, sandbox, child_environment(process_environment()), folder)
        yield opened
        opened.close()

    def test_a_file_of_three_gigabytes_is_refused(self, runner: CommandRunner) -> None:
        runner.run("truncate -s 1G small; truncate -s 3G big", 60)

        assert (runner.root / "small").stat().st_size == 2**30
        assert (runner.root / "big").stat().st_size == 0

    def test_crashes_leave_no_core_and_open_files_are_bounded(self, runner: CommandRunner) -> None:
        told = runner.run("ulimit -c; ulimit -n; ulimit -Hn; bash -c 'kill -SEGV $$'; ls", 60).output.decode()

        most = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        assert told.split()[:3] == ["0", str(most), str(most)]
        assert list(runner.root.iterdir()) == []

    def test_processes_are_bounded_where_they_are_counted_by_namespace(
        self, runner: CommandRunner, backend: SandboxBackend
    ) -> None:
        told = runner.run("ulimit -u", 60).output.decode().strip()

        most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        outside = "unlimited" if most == resource.RLIM_INFINITY else str(most)
        counted = tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14)
        bounded = backend == "bwrap" and counted and (outside == "unlimited" or most > 4096)
        assert told == ("4096" if bounded else outside)
