from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from chimera.config import SandboxLevel, process_environment
from chimera.errors import SandboxUnavailableError
from chimera.workspace.environment import child_environment
from chimera.workspace.sandbox import Sandbox, open_sandbox

Git = Callable[..., str]
CANARY = "canary-77e0c1b4"


class Box:
    """A sandbox together with the environment it was opened in."""

    def __init__(
        self,
        root: Path,
        *,
        level: SandboxLevel = "workspace-write",
        allow_net: bool = False,
        allow_git_write: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root.resolve()
        self.environment = dict(process_environment()) | {"SECRET_API_KEY": CANARY}
        self.environment |= environment or {}
        self.sandbox = open_sandbox(
            level,
            self.root,
            allow_net=allow_net,
            allow_git_write=allow_git_write,
            required=True,
            environment=self.environment,
            backends=("bwrap",),
        )

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        with self.sandbox.confine(["bash", "-c", command]) as confined:
            return subprocess.run(
                confined.arguments,
                cwd=self.root,
                env=child_environment(self.environment),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                pass_fds=confined.descriptors,
            )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def repository(root: Path, git: Git) -> Path:
    git(root, "init", "--quiet")
    hooks = root / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    (root / "a").write_text("a\n")
    git(root, "add", "a")
    git(root, "commit", "--quiet", "-m", "first")
    return root


@pytest.fixture
def system_is_untouched() -> Iterator[None]:
    marks = (Path("/etc/chimera-was-here"), Path("/usr/bin/chimera-was-here"))
    yield
    found = [mark for mark in marks if mark.exists()]
    for mark in found:
        mark.unlink()
    assert found == []


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


@pytest.mark.usefixtures("bubblewrap")
class TestWriting:
    def test_the_workspace_can_be_written_and_keeps_what_was_written(self, root: Path) -> None:
        done = Box(root).run("mkdir d && echo hello > d/f && mv d/f g && pwd")

        assert (done.returncode, done.stdout.strip()) == (0, str(root.resolve()))
        assert (root / "g").read_text() == "hello\n"

    def test_a_read_only_workspace_can_be_read_and_not_written(self, root: Path) -> None:
        (root / "f").write_text("old")

        done = Box(root, level="read-only").run("cat f; echo new > f; touch g; rm f")

        assert done.stdout == "old"
        assert contents(root) == {"f": b"old"}

    @pytest.mark.usefixtures("system_is_untouched")
    def test_nothing_outside_the_workspace_is_written(self, root: Path, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()
        (home / ".profile").write_text("mine")
        outside = tmp_path / "outside"
        outside.mkdir()
        before = contents(tmp_path)
        box = Box(root, environment={"HOME": str(home)})

        box.run(
            f"echo x > ../outside/f; echo x > {outside}/f; echo x > /etc/chimera-was-here; echo x > {home}/.profile"
        )
        box.run(
            f"ln -s {outside} link; echo x > link/f; rm link; echo x > /usr/bin/chimera-was-here; touch ~/new"
        )

        assert contents(tmp_path) == before

    @pytest.mark.usefixtures("system_is_untouched")
    def test_capabilities_are_gone_and_mounts_stay_as_they_are(self, root: Path) -> None:
        done = Box(root).run(
            "grep -E 'Cap(Eff|Prm|Bnd)' /proc/self/status | awk '{print $2}' | sort -u;"
            "mount -o remount,rw,bind / ; echo x > /etc/chimera-was-here; umount /tmp; echo end"
        )

        assert done.stdout.split() == ["0000000000000000", "end"]

    def test_no_further_user_namespace_can_be_made(self, root: Path) -> None:
        assert Box(root).run("unshare --user true").returncode != 0

    @pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/run"])
    def test_temporary_folders_work_and_are_private(self, root: Path, tmp_path: Path, folder: str) -> None:
        (root.parent / "neighbour").write_text("unseen")
        name = f"{folder}/{tmp_path.name}"

        done = Box(root).run(
            f"echo x > {name}; cat {name}; cat ../neighbour; mktemp > /dev/null && echo $TMPDIR"
        )

        assert done.stdout.split() == ["x", "/tmp"]
        assert not Path(name).exists()

    def test_twenty_commands_and_a_killed_one_leave_no_trace(self, root: Path) -> None:
        box = Box(root)
        for _ in range(20):
            assert box.run("true").returncode == 0
        with (
            box.sandbox.confine(["sh", "-c", "echo started; sleep 60"]) as confined,
            subprocess.Popen(
                confined.arguments,
                cwd=box.root,
                env=child_environment(box.environment),
                stdout=subprocess.PIPE,
                pass_fds=confined.descriptors,
            ) as killed,
        ):
            assert killed.stdout is not None
            killed.stdout.readline()
            killed.kill()

        assert contents(root) == {}
        assert str(root) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


@pytest.mark.usefixtures("bubblewrap")
class TestSecrets:
    def test_a_key_in_the_environment_is_nowhere_to_be_found(self, root: Path) -> None:
        child = "import sys; sys.stdin.read()"
        environment = dict(process_environment()) | {"SECRET_API_KEY": CANARY}
        with subprocess.Popen(
            [sys.executable, "-c", child], env=environment, stdin=subprocess.PIPE
        ) as holder:
            done = Box(root).run("env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; ls /proc")
            holder.kill()

        assert "PATH=" in done.stdout
        assert CANARY not in done.stdout
        assert str(holder.pid) not in done.stdout.split()

    def test_the_home_is_empty_but_for_toolchains_without_their_keys(
        self, root: Path, tmp_path: Path
    ) -> None:
        home = tmp_path / "home"
        for path in (".ssh/id_rsa", ".cargo/bin/tool", ".cargo/credentials.toml", ".netrc", "projects/other"):
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(CANARY if path != ".cargo/bin/tool" else "a tool")
        box = Box(root, environment={"HOME": str(home)})

        done = box.run(
            "cat ~/.cargo/bin/tool; echo; ls -A ~; cat ~/.ssh/* ~/.netrc ~/projects/* ~/.cargo/cred*; touch ~/.cargo/x"
        )

        assert done.stdout.split() == ["a", "tool", ".cache", ".cargo"]
        assert CANARY not in done.stdout
        assert not (home / ".cargo" / "x").exists()

    def test_the_home_and_its_cache_can_be_written_for_the_moment(self, root: Path, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()

        done = Box(root, environment={"HOME": str(home)}).run("echo x > ~/.cache/f && cat ~/.cache/f")

        assert done.stdout == "x\n"
        assert list(home.iterdir()) == []

    def test_a_toolchain_that_the_environment_names_is_shown(self, root: Path, tmp_path: Path) -> None:
        (tmp_path / "home" / "own" / "rust").mkdir(parents=True)
        (tmp_path / "home" / "own" / "rust" / "f").write_text("found")
        box = Box(
            root, environment={"HOME": str(tmp_path / "home"), "CARGO_HOME": str(tmp_path / "home/own/rust")}
        )

        assert box.run('cat "$CARGO_HOME/f"').stdout == "found"


@pytest.mark.usefixtures("bubblewrap")
class TestPlaces:
    def test_a_workspace_in_the_home_works(self, tmp_path: Path) -> None:
        (tmp_path / "home" / "project").mkdir(parents=True)
        (tmp_path / "home" / ".secret").write_text(CANARY)
        box = Box(tmp_path / "home" / "project", environment={"HOME": str(tmp_path / "home")})

        done = box.run("echo x > f; cat ../.secret")

        assert (tmp_path / "home" / "project" / "f").exists()
        assert done.stdout == ""
        assert box.sandbox.missing == ()

    def test_a_home_as_workspace_works_and_is_said_to_be_open(self, tmp_path: Path) -> None:
        box = Box(tmp_path, environment={"HOME": str(tmp_path)})

        assert box.run("echo x > ~/f").returncode == 0
        assert (tmp_path / "f").exists()
        assert any("keys included" in sentence for sentence in box.sandbox.missing)

    def test_python_and_its_tests_run(self, root: Path) -> None:
        (root / "test_it.py").write_text(
            "import multiprocessing, tempfile, unittest\n"
            "class Test(unittest.TestCase):\n"
            "    def test(self):\n"
            "        with multiprocessing.Pool(1) as pool, tempfile.TemporaryFile():\n"
            "            self.assertEqual(pool.map(abs, [-1]), [1])\n"
        )

        done = Box(root).run(f"{sys.executable} -m unittest test_it")

        assert done.returncode == 0, done.stderr

    def test_a_sibling_folder_of_the_repository_around_the_workspace_is_seen(self, repository: Path) -> None:
        (repository / "part").mkdir()
        box = Box(repository / "part", environment={"HOME": str(repository.parent)})

        done = box.run("cat ../a; git log --format=%s; touch ../b")

        assert done.stdout.split() == ["a", "first"]
        assert not (repository / "b").exists()


@pytest.mark.usefixtures("bubblewrap")
class TestGit:
    def test_git_reads_and_does_not_write(self, repository: Path) -> None:
        before = contents(repository / ".git")

        done = Box(repository).run(
            "git status --short && git log --format=%s && git diff; git add -A; git commit -qm x"
        )

        assert done.stdout == "first\n"
        assert contents(repository / ".git") == before

    def test_git_files_can_neither_be_changed_nor_moved_away(self, repository: Path) -> None:
        before = contents(repository)

        Box(repository).run(
            "echo x > .git/hooks/pre-commit; git config core.fsmonitor ./x; rm -rf .git;"
            "mv .git moved && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit"
        )

        assert contents(repository) == before

    def test_allowed_writing_commits_and_still_protects_what_runs_programs(self, repository: Path) -> None:
        box = Box(repository, allow_git_write=True)
        config = (repository / ".git" / "config").read_bytes()

        done = box.run(
            "echo b > b; git add b; git -c user.name=B -c user.email=b@example.org commit -qm second; git log --format=%s;"
            "git config core.fsmonitor ./x; echo x > .git/hooks/pre-commit; echo x > .git/info/exclude;"
            "mv .git moved; mv .git/hooks .git/h"
        )

        assert done.stdout.split() == ["second", "first"]
        assert (repository / ".git" / "config").read_bytes() == config
        assert not (repository / ".git" / "hooks" / "pre-commit").exists()
        assert not (repository / "moved").exists()

    def test_nested_repositories_are_protected(self, repository: Path, git: Git) -> None:
        inner = repository / "deep" / "inner"
        inner.mkdir(parents=True)
        git(inner, "init", "--quiet")
        before = contents(inner / ".git")

        done = Box(repository).run("echo x > deep/inner/.git/config; echo x > deep/inner/f; cat deep/inner/f")

        assert done.stdout == "x\n"
        assert contents(inner / ".git") == before

    def test_a_linked_worktree_reads_its_repository_and_does_not_write_it(
        self, repository: Path, git: Git, tmp_path: Path
    ) -> None:
        git(repository, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "tree"))
        before = contents(repository / ".git")
        box = Box(tmp_path / "tree", environment={"HOME": str(tmp_path)})

        done = box.run(
            f"git log --format=%s; git commit --allow-empty -qm x; echo x > .git; cat {repository}/a"
        )

        assert done.stdout.split() == ["first"]
        assert contents(repository / ".git") == before
        assert (tmp_path / "tree" / ".git").read_text().startswith("gitdir: ")

    def test_a_submodule_reads_its_repository(self, repository: Path, git: Git, tmp_path: Path) -> None:
        outer = tmp_path / "outer"
        outer.mkdir()
        git(outer, "init", "--quiet")
        git(outer, "submodule", "--quiet", "add", str(repository), "inner")
        before = contents(outer / ".git")

        done = Box(outer / "inner", environment={"HOME": str(tmp_path)}).run(
            "git log --format=%s; echo x > .git"
        )

        assert done.stdout == "first\n"
        assert contents(outer / ".git") == before

    @pytest.mark.parametrize("allow_git_write", [False, True])
    @pytest.mark.parametrize("trick", ["pointer", "common", "pointer to own", "link"])
    def test_a_repository_cannot_have_another_folder_shown(
        self, root: Path, tmp_path: Path, allow_git_write: bool, trick: str
    ) -> None:
        secret = tmp_path / "home" / ".ssh"
        secret.mkdir(parents=True)
        (secret / "HEAD").write_text(CANARY)
        fake = root / ("fake" if trick == "pointer to own" else ".git")
        match trick:
            case "pointer":
                fake.write_text(f"gitdir: {secret}\n")
            case "link":
                fake.symlink_to(secret)
            case _:
                fake.mkdir()
                (fake / "HEAD").write_text("ref: refs/heads/main\n")
                (fake / "commondir").write_text(f"{secret}\n")
                (fake / "gitdir").write_text(f"{root}/.git\n")
        if trick == "pointer to own":
            (root / ".git").write_text("gitdir: fake\n")
        box = Box(root, allow_git_write=allow_git_write, environment={"HOME": str(tmp_path / "home")})

        done = box.run(f"cat {secret}/HEAD; echo x > {secret}/HEAD")

        assert CANARY not in done.stdout
        assert (secret / "HEAD").read_text() == CANARY

    def test_nothing_that_is_missing_is_made(self, root: Path, git: Git) -> None:
        git(root, "init", "--quiet", "--template=")
        before = contents(root)
        box = Box(root, allow_git_write=True)

        assert box.run("true").returncode == 0
        assert contents(root) == before
        assert box.sandbox.missing == ()

    def test_a_repository_deleted_during_the_run_does_not_stop_commands(self, root: Path, git: Git) -> None:
        (root / "inner").mkdir()
        git(root / "inner", "init", "--quiet")
        box = Box(root)
        subprocess.run(["rm", "-rf", str(root / "inner")], check=True)

        assert box.run("echo ok").stdout == "ok\n"
        assert contents(root) == {}


@pytest.mark.usefixtures("bubblewrap")
class TestNetwork:
    @pytest.fixture
    def listener(self) -> Iterator[tuple[int, list[bytes]]]:
        heard: list[bytes] = []
        with socket.create_server(("127.0.0.1", 0)) as server:

            def listen() -> None:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        word = connection.recv(100)
                    heard.append(word)
                    if word == b"end\n":
                        return

            thread = threading.Thread(target=listen)
            thread.start()
            yield server.getsockname()[1], heard
            with socket.create_connection(server.getsockname()) as last:
                last.sendall(b"end\n")
            thread.join()

    def test_a_listener_outside_hears_nothing(self, root: Path, listener: tuple[int, list[bytes]]) -> None:
        port, heard = listener

        done = Box(root).run(f"echo hello > /dev/tcp/127.0.0.1/{port}; echo end")

        assert done.stdout == "end\n"
        assert heard == []

    def test_allowed_network_reaches_the_listener(
        self, root: Path, listener: tuple[int, list[bytes]]
    ) -> None:
        port, heard = listener

        done = Box(root, allow_net=True).run(f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo hello >&3; cat <&3")

        assert done.returncode == 0, done.stderr
        assert heard == [b"hello\n"]

    def test_loopback_inside_works(self, root: Path) -> None:
        code = (
            "import socket; s = socket.create_server(('127.0.0.1', 0));"
            "c = socket.create_connection(s.getsockname()); c.sendall(b'hi'); print(s.accept()[0].recv(2))"
        )

        assert Box(root).run(f'{sys.executable} -c "{code}"').stdout == "b'hi'\n"


class TestWithoutABackend:
    def open(
        self, root: Path, *, required: bool, trusted_path: Path, level: SandboxLevel = "workspace-write"
    ) -> Sandbox:
        return open_sandbox(
            level,
            root.resolve(),
            allow_net=False,
            allow_git_write=False,
            required=required,
            environment=process_environment(),
            trusted_path=str(trusted_path),
            backends=("bwrap",),
        )

    @pytest.fixture
    def broken(self, tmp_path: Path) -> Path:
        """A folder with a bwrap that never works."""
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "bwrap").write_text(
            "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n"
        )
        (folder / "bwrap").chmod(0o755)
        return folder

    def test_a_required_sandbox_that_is_missing_stops_with_the_way_to_get_one(
        self, root: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(SandboxUnavailableError, match="--sandbox danger-full-access") as caught:
            self.open(root, required=True, trusted_path=tmp_path / "empty")

        assert "was not found" in str(caught.value)

    def test_a_required_sandbox_that_does_not_work_stops_with_its_reason(
        self, root: Path, broken: Path
    ) -> None:
        with pytest.raises(SandboxUnavailableError, match="setting up uid map: Permission denied"):
            self.open(root, required=True, trusted_path=broken)

    @pytest.mark.parametrize("level", ["workspace-write", "read-only"])
    def test_without_need_of_one_the_run_goes_on_and_says_so(
        self, root: Path, broken: Path, level: SandboxLevel
    ) -> None:
        sandbox = self.open(root, required=False, trusted_path=broken, level=level)

        assert (sandbox.backend, sandbox.level) == ("none", level)
        with sandbox.confine(["ls", "-l"]) as confined:
            assert (confined.arguments, confined.descriptors) == (["ls", "-l"], ())
        assert "commands run unconfined" in sandbox.missing[0]

    def test_full_access_asks_for_no_backend(self, root: Path, broken: Path) -> None:
        sandbox = self.open(root, required=True, trusted_path=broken, level="danger-full-access")

        assert sandbox.backend == "none"
        with sandbox.confine(["ls"]) as confined:
            assert (confined.arguments, confined.descriptors) == (["ls"], ())

    def test_a_bwrap_that_lies_in_the_workspace_is_never_run(self, broken: Path) -> None:
        marker = broken / "marker"
        (broken / "bwrap").write_text(f"#!/bin/sh\ntouch {marker}\n")
        with pytest.raises(SandboxUnavailableError):
            self.open(broken, required=True, trusted_path=broken)
        assert not marker.exists()

    @pytest.mark.parametrize(
        ("refused", "losses"),
        [
            ("--proc", ["other processes"]),
            ("--disable-userns", []),
            ("--seccomp", ["no system call is refused"]),
            ("--seccomp|--disable-userns", ["user namespaces of their own", "no system call is refused"]),
        ],
    )
    def test_what_the_machine_refuses_is_left_out_and_told(
        self, root: Path, broken: Path, refused: str, losses: list[str]
    ) -> None:
        patterns = "|".join(f'*" {word} "*' for word in refused.split("|"))
        (broken / "bwrap").write_text(f'#!/bin/sh\ncase " $* " in {patterns}) exit 1;; esac\n')

        sandbox = self.open(root, required=True, trusted_path=broken)

        with sandbox.confine(["true"]) as confined:
            assert not set(refused.split("|")) & set(confined.arguments)
        assert sandbox.backend == "bwrap"
        assert len(sandbox.missing) == len(losses)
        assert all(loss in sentence for loss, sentence in zip(losses, sandbox.missing, strict=True))


@pytest.mark.usefixtures("bubblewrap")
def test_a_sandbox_works_inside_another_that_allows_it(root: Path) -> None:
    code = (
        "import os, subprocess; from pathlib import Path\n"
        "from chimera.config import process_environment\n"
        "from chimera.workspace.sandbox import open_sandbox\n"
        "s = open_sandbox('workspace-write', Path('.').resolve(), allow_net=False, allow_git_write=False,"
        " required=True, environment=process_environment())\n"
        "with s.confine(['sh', '-c', 'echo x > /etc/y || echo x > f']) as c:\n"
        "    print(s.backend, subprocess.run(c.arguments, pass_fds=c.descriptors).returncode, *s.missing)\n"
    )
    outer = ["--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    done = subprocess.run(
        ["bwrap", *outer, "--bind", str(root), str(root), sys.executable, "-c", code],
        cwd=root,
        env=child_environment(process_environment(), extra={"PYTHONPATH": os.pathsep.join(sys.path)}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.startswith("bwrap 0"), done.stderr
    assert (root / "f").read_text() == "x\n"
