from __future__ import annotations

import os
import resource
import signal
import socket
import stat
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimera.errors import ToolError, WorkspaceError
from chimera.workspace.paths import Place, Workspace

MEGABYTE = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print()\n")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git" / "config").write_text("[core]\n")
    (tmp_path / "app-evil").mkdir()
    (tmp_path / "app-evil" / "x").write_text("outside")
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    run_dir = root.parent / "run"
    for folder in ("outputs", "archive"):
        (run_dir / folder).mkdir(parents=True)
        (run_dir / folder / "0001.txt").write_text(folder)
    (run_dir / "events.jsonl").write_text("secret")
    return Workspace.open(root, run_dir=run_dir)


@pytest.fixture
def outside_is_untouched(root: Path) -> Iterator[None]:
    before = listing(root.parent / "app-evil")
    yield
    assert listing(root.parent / "app-evil") == before


def listing(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def read(workspace: Workspace, path: str) -> bytes:
    return workspace.read_bytes(workspace.locate(path), max_bytes=MEGABYTE)


def write(workspace: Workspace, path: str, content: bytes = b"new") -> None:
    workspace.write_bytes(workspace.locate(path, write=True), content)


class TestOpening:
    def test_the_root_is_the_real_path(self, root: Path) -> None:
        (root.parent / "link").symlink_to(root)

        assert Workspace.open(root.parent / "link").root == root.resolve()

    @pytest.mark.parametrize("name", ["missing", "app/src/main.py", "loop", "a\0b"])
    def test_what_is_no_folder_is_refused(self, root: Path, name: str) -> None:
        (root.parent / "loop").symlink_to("loop")

        with pytest.raises(WorkspaceError, match="workspace"):
            Workspace.open(root.parent / name)

    @pytest.mark.parametrize("path", ["/", "/proc", "/proc/self", "/sys"])
    def test_places_that_are_no_project_are_refused(self, path: str) -> None:
        with pytest.raises(WorkspaceError, match="cannot be a workspace"):
            Workspace.open(Path(path))

    @pytest.mark.usefixtures("ordinary_user")
    def test_an_unreadable_folder_is_refused(self, root: Path) -> None:
        root.chmod(0)
        try:
            with pytest.raises(WorkspaceError, match="permission denied"):
                Workspace.open(root)
        finally:
            root.chmod(0o755)


class TestLocating:
    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("src/main.py", "src/main.py"),
            ("./src//main.py", "src/main.py"),
            ("src/../src/main.py", "src/main.py"),
            ("new/folder/file", "new/folder/file"),
            (".", "."),
            ("src/", "src"),
            ("..x/y", "..x/y"),
            ("trailing.", "trailing."),
            (" leading", " leading"),
            ("./@run/x", "./@run/x"),
            ("@runner", "@runner"),
            ("./~x", "~x"),
            ("ünïcode/☃", "ünïcode/☃"),
        ],
    )
    def test_a_path_inside_gets_its_plain_name(self, workspace: Workspace, path: str, name: str) -> None:
        assert workspace.locate(path).name == name

    def test_an_absolute_path_inside_means_the_same_file(self, workspace: Workspace, root: Path) -> None:
        assert workspace.locate(str(root / "src" / "main.py")) == workspace.locate("src/main.py")

    def test_every_name_leads_back_to_its_place(self, workspace: Workspace) -> None:
        for path in ("src/main.py", ".", "./@run/x", "@run/outputs/0001.txt"):
            place = workspace.locate(path)
            assert workspace.locate(place.name) == place

    @pytest.mark.parametrize(
        "path",
        [
            "..",
            "../app-evil/x",
            "..//app-evil/x",
            "src/../../app-evil/x",
            "/etc/hosts",
            "/",
            "/proc/self/cwd/..",
            "/proc/self/environ",
            "/dev/zero",
            "missing/../../app-evil/new",
            "~",
            "~/x",
            "~root/.ssh/id_rsa",
            "file:///etc/hosts",
            "https://example.org/",
            "",
            "  ",
            "a\0b",
            "x" * 300,
            "x/" * 3000,
            "\ud800",
        ],
    )
    @pytest.mark.parametrize("writing", [False, True])
    @pytest.mark.usefixtures("outside_is_untouched")
    def test_a_path_that_leads_out_is_refused(self, workspace: Workspace, path: str, writing: bool) -> None:
        with pytest.raises(ToolError):
            workspace.locate(path, write=writing)

    def test_a_sibling_with_the_same_beginning_is_outside(self, workspace: Workspace, root: Path) -> None:
        with pytest.raises(ToolError, match="outside the workspace"):
            workspace.locate(str(root) + "-evil/x")

    def test_the_refusal_says_what_to_do(self, workspace: Workspace) -> None:
        with pytest.raises(ToolError, match="relative to it"):
            workspace.locate("../x")

    @given(
        st.lists(
            st.sampled_from(["..", ".", "src", "main.py", "app", "app-evil", "x", "@run", "~", ""]),
            max_size=8,
        )
    )
    def test_no_mix_of_components_leads_out(
        self, tmp_path_factory: pytest.TempPathFactory, parts: list[str]
    ) -> None:
        base = tmp_path_factory.getbasetemp() / "mix"
        (base / "app" / "src").mkdir(parents=True, exist_ok=True)
        workspace = Workspace.open(base / "app")
        try:
            place = workspace.locate("/".join(parts))
        except ToolError:
            return
        assert place.path.is_relative_to(workspace.root)

    def test_a_backslash_for_a_slash_is_explained(self, workspace: Workspace, root: Path) -> None:
        for writing in (False, True):
            with pytest.raises(ToolError, match=r"Did you mean 'src/main\.py'"):
                workspace.locate("src\\main.py", write=writing)
        with pytest.raises(ToolError, match="backslash"):
            write(workspace, "src\\new.py")
        with pytest.raises(ToolError, match="backslash"):
            write(workspace, "C:\\app\\new.py")
        assert {p.name for p in root.iterdir()} == {"src", ".git"}

    def test_a_file_whose_name_has_a_backslash_can_be_used(self, workspace: Workspace, root: Path) -> None:
        (root / "a\\b").write_text("real")

        write(workspace, "a\\b", b"changed")

        assert read(workspace, "a\\b") == b"changed"


class TestGitFiles:
    @pytest.mark.parametrize(
        "path",
        [
            ".git",
            ".git/config",
            ".git/hooks/pre-commit",
            ".GIT/config",
            ".Git/hooks/new",
            "src/.git",
            "src/vendored/.git/config",
            ".git /config",
            ".git./config",
            ".g\u200cit/config",
            "git~1/config",
            ".git/../src/main.py",
        ],
    )
    def test_they_are_not_written(self, workspace: Workspace, root: Path, path: str) -> None:
        before = listing(root)

        with pytest.raises(ToolError, match="belongs to git"):
            write(workspace, path)

        assert listing(root) == before

    def test_they_are_not_written_through_a_link_or_where_a_pointer_leads(
        self, workspace: Workspace, root: Path
    ) -> None:
        (root / "shortcut").symlink_to(".git")
        with pytest.raises(ToolError, match="belongs to git"):
            write(workspace, "shortcut/config")
        (root / ".git").rename(root / "elsewhere")
        (root / ".git").write_text("gitdir: elsewhere\n")
        with pytest.raises(ToolError, match="belongs to git"):
            write(workspace, "elsewhere/config")

    @pytest.mark.parametrize(
        "path", ["bare/config", "bare/hooks/x", "bare/new/x", "bare/tree/.git", "half/HEAD"]
    )
    def test_no_folder_that_git_would_take_for_its_own_is_written_or_completed(
        self, workspace: Workspace, root: Path, path: str
    ) -> None:
        for folder in ("bare/objects", "bare/refs", "bare/tree", "bare/hooks", "half/objects", "half/refs"):
            (root / folder).mkdir(parents=True)
        for file in ("bare/HEAD", "bare/tree/.git", "bare/hooks/.git"):
            (root / file).touch()
        with pytest.raises(ToolError, match="belongs to git"):
            workspace.locate(path, write=True)
        for fine in ("bare/tree/x", "half/x", "half/objects/x"):
            assert workspace.locate(fine, write=True).name == fine

    def test_they_can_be_read(self, workspace: Workspace) -> None:
        assert read(workspace, ".git/config") == b"[core]\n"

    @pytest.mark.parametrize("path", [".gitignore", ".github/workflows/ci.yml", "src/git", ".gitattributes"])
    def test_files_with_similar_names_are_written(self, workspace: Workspace, path: str) -> None:
        write(workspace, path)

        assert read(workspace, path) == b"new"

    def test_a_place_made_for_reading_is_checked_again(self, workspace: Workspace) -> None:
        with pytest.raises(ToolError, match="belongs to git"):
            workspace.write_bytes(workspace.locate(".git/config"), b"x")


class TestTheRecord:
    @pytest.mark.parametrize("folder", ["outputs", "archive"])
    def test_outputs_and_archive_can_be_read(self, workspace: Workspace, folder: str) -> None:
        assert read(workspace, f"@run/{folder}/0001.txt") == folder.encode()
        assert workspace.kind(workspace.locate(f"@run/{folder}")) == "folder"

    @pytest.mark.parametrize(
        "path",
        [
            "@run",
            "@run/",
            "@run/events.jsonl",
            "@run/outputs/../events.jsonl",
            "@run//etc/hosts",
            "@run/../x",
            "@run/out",
        ],
    )
    def test_nothing_else_of_it_can(self, workspace: Workspace, path: str) -> None:
        with pytest.raises(ToolError, match="@run"):
            workspace.locate(path)

    def test_a_link_in_it_does_not_lead_out(self, workspace: Workspace, root: Path) -> None:
        (root.parent / "run" / "outputs" / "link").symlink_to("/etc/hosts")

        with pytest.raises(ToolError, match="leads out"):
            workspace.locate("@run/outputs/link")

    def test_it_cannot_be_written(self, workspace: Workspace) -> None:
        with pytest.raises(ToolError, match="only be read"):
            workspace.locate("@run/outputs/new", write=True)
        with pytest.raises(ToolError, match="only be read"):
            workspace.write_bytes(workspace.locate("@run/outputs/0001.txt"), b"x")
        assert read(workspace, "@run/outputs/0001.txt") == b"outputs"

    def test_without_a_record_nothing_is_there(self, root: Path) -> None:
        with pytest.raises(ToolError, match="not readable"):
            Workspace.open(root).locate("@run/outputs/0001.txt")

    def test_a_missing_output_is_named_with_its_neighbours(self, workspace: Workspace) -> None:
        with pytest.raises(ToolError, match=r"Did you mean '@run/outputs/0001\.txt'"):
            read(workspace, "@run/outputs/001.txt")


class TestLinks:
    @pytest.mark.parametrize("writing", [False, True])
    @pytest.mark.usefixtures("outside_is_untouched")
    def test_no_kind_of_link_leads_out(self, workspace: Workspace, root: Path, writing: bool) -> None:
        (root / "file").symlink_to("../app-evil/x")
        (root / "folder").symlink_to(root.parent / "app-evil")
        (root / "dangling").symlink_to("../app-evil/new")
        (root / "chain").symlink_to("folder")
        for path in (
            "file",
            "folder",
            "folder/x",
            "folder/new",
            "folder/missing/deep/new",
            "dangling",
            "chain/x",
        ):
            with pytest.raises(ToolError, match="outside the workspace"):
                workspace.locate(path, write=writing)

    def test_a_link_inside_stays_a_link_and_its_target_changes(
        self, workspace: Workspace, root: Path
    ) -> None:
        (root / "link.md").symlink_to("src/main.py")

        write(workspace, "link.md")

        assert (root / "link.md").is_symlink()
        assert (root / "src" / "main.py").read_bytes() == b"new"
        assert workspace.locate("link.md").name == "src/main.py"

    def test_a_dangling_link_inside_is_filled(self, workspace: Workspace, root: Path) -> None:
        (root / "link").symlink_to("made/now")

        write(workspace, "link")

        assert (root / "made" / "now").read_bytes() == b"new"

    def test_a_link_through_the_outside_back_in_is_inside(self, workspace: Workspace, root: Path) -> None:
        (root / "round").symlink_to(root / "src")

        assert workspace.locate("round/main.py").name == "src/main.py"

    @pytest.mark.parametrize("path", ["loop", "loop/x", "first"])
    def test_a_loop_is_told(self, workspace: Workspace, root: Path, path: str) -> None:
        (root / "loop").symlink_to("loop")
        (root / "first").symlink_to("second")
        (root / "second").symlink_to("first")

        with pytest.raises(ToolError, match="symbolic links"):
            workspace.locate(path, write=True)

    @pytest.mark.usefixtures("outside_is_untouched")
    def test_a_folder_swapped_for_a_link_after_the_check_leads_nowhere(
        self, workspace: Workspace, root: Path
    ) -> None:
        (root / "src" / "x").write_text("inside")
        place = workspace.locate("src/x", write=True)
        (root / "src").rename(root / "moved")
        (root / "src").symlink_to("../app-evil")

        with pytest.raises(ToolError, match="cannot be read"):
            workspace.read_bytes(place, max_bytes=MEGABYTE)
        with pytest.raises(ToolError, match="cannot be written"):
            workspace.write_bytes(place, b"escaped")

    @pytest.mark.usefixtures("outside_is_untouched")
    def test_a_file_swapped_for_a_link_after_the_check_leads_nowhere(
        self, workspace: Workspace, root: Path
    ) -> None:
        place = workspace.locate("src/main.py", write=True)
        (root / "src" / "main.py").unlink()
        (root / "src" / "main.py").symlink_to("../../app-evil/x")

        with pytest.raises(ToolError, match="is a link"):
            workspace.read_bytes(place, max_bytes=MEGABYTE)
        with pytest.raises(ToolError, match="is a link"):
            workspace.write_bytes(place, b"escaped")

    @pytest.mark.usefixtures("outside_is_untouched")
    def test_a_thousand_rounds_against_a_swapper_never_touch_the_outside(
        self, workspace: Workspace, root: Path
    ) -> None:
        (root / "real").mkdir()
        (root / "real" / "x").write_text("inside")
        (root / "evil").symlink_to("../app-evil")
        (root / "door").symlink_to("real")
        done = threading.Event()

        def swap() -> None:
            turn = 0
            while not done.is_set():
                turn += 1
                (root / "next").symlink_to(("real", "../app-evil")[turn % 2])
                (root / "next").rename(root / "door")

        swapper = threading.Thread(target=swap)
        swapper.start()
        try:
            for _ in range(1000):
                try:
                    assert read(workspace, "door/x") != b"outside"
                    write(workspace, "door/x", b"written")
                except ToolError:
                    continue
        finally:
            done.set()
            swapper.join()

    @pytest.mark.usefixtures("outside_is_untouched")
    def test_writing_to_a_hard_link_leaves_the_outside_file_alone(
        self, workspace: Workspace, root: Path
    ) -> None:
        (root / "hard").hardlink_to(root.parent / "app-evil" / "x")

        write(workspace, "hard")

        assert (root / "hard").read_bytes() == b"new"


class TestReading:
    def test_the_whole_content_comes_back(self, workspace: Workspace, root: Path) -> None:
        content = bytes(range(256)) * 10
        (root / "bytes").write_bytes(content)

        assert read(workspace, "bytes") == content

    def test_a_file_may_be_as_large_as_the_limit_and_no_larger(
        self, workspace: Workspace, root: Path
    ) -> None:
        (root / "big").write_bytes(b"x" * 1000)
        place = workspace.locate("big")

        assert len(workspace.read_bytes(place, max_bytes=1000)) == 1000
        with pytest.raises(ToolError, match=r"too large: 1,000 bytes, and at most 999"):
            workspace.read_bytes(place, max_bytes=999)

    def test_what_is_no_regular_file_is_refused_at_once(self, workspace: Workspace, root: Path) -> None:
        os.mkfifo(root / "pipe")
        with socket.socket(socket.AF_UNIX) as listener:
            old = Path.cwd()
            os.chdir(root)  # the path of a socket must be short
            try:
                listener.bind("socket")
            finally:
                os.chdir(old)
        for path, kind in (
            ("pipe", "a named pipe"),
            ("socket", "a socket"),
            ("src", "a folder"),
            (".", "a folder"),
        ):
            with pytest.raises(ToolError, match=kind):
                read(workspace, path)
            assert workspace.kind(workspace.locate(path)) in {"other", "folder"}

    def test_a_device_is_refused(self, workspace: Workspace, root: Path) -> None:
        try:
            os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        except PermissionError:
            pytest.skip("only root can make devices")

        with pytest.raises(ToolError, match="a device"):
            read(workspace, "zero")

    def test_a_missing_file_is_answered_with_its_neighbours(self, workspace: Workspace, root: Path) -> None:
        (root / "src" / "Config.toml").touch()

        with pytest.raises(ToolError, match=r"Did you mean 'src/main\.py'"):
            read(workspace, "src/mian.py")
        with pytest.raises(ToolError, match=r"Did you mean 'src/Config\.toml'"):
            read(workspace, "src/config.toml")
        with pytest.raises(ToolError, match="with search"):
            read(workspace, "src/quite_different")
        with pytest.raises(ToolError, match="There is no folder 'lib'"):
            read(workspace, "lib/deep/x.py")
        with pytest.raises(ToolError, match="not a directory"):
            read(workspace, "src/main.py/x")

    def test_a_name_that_is_not_utf8_can_be_read(self, workspace: Workspace, root: Path) -> None:
        (root / os.fsdecode(b"caf\xe9")).write_text("latin")

        assert read(workspace, "caf\udce9") == b"latin"

    @pytest.mark.usefixtures("ordinary_user")
    def test_an_unreadable_file_is_told(self, workspace: Workspace, root: Path) -> None:
        (root / "secret").touch(mode=0)

        with pytest.raises(ToolError, match="permission denied"):
            read(workspace, "secret")


class TestWriting:
    @pytest.mark.parametrize("mode", [0o755, 0o600, 0o640, 0o444 | 0o200, 0o4755])
    def test_the_mode_of_a_replaced_file_is_kept(self, workspace: Workspace, root: Path, mode: int) -> None:
        file = root / "run.sh"
        file.write_text("old")
        file.chmod(mode)

        write(workspace, "run.sh")

        assert file.read_bytes() == b"new"
        assert stat.S_IMODE(file.stat().st_mode) == mode

    @pytest.mark.parametrize(("umask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0, 0o666)])
    def test_a_new_file_honours_the_umask(
        self, workspace: Workspace, root: Path, umask: int, mode: int
    ) -> None:
        old = os.umask(umask)
        try:
            write(workspace, "deep/new")
        finally:
            os.umask(old)

        assert stat.S_IMODE((root / "deep" / "new").stat().st_mode) == mode
        assert stat.S_IMODE((root / "deep").stat().st_mode) == 0o777 & ~umask

    def test_the_owner_of_a_replaced_file_is_kept(self, workspace: Workspace, root: Path) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root can give files away")
        os.chown(root / "src" / "main.py", 12345, 54321)

        write(workspace, "src/main.py")

        status = (root / "src" / "main.py").stat()
        assert (status.st_uid, status.st_gid) == (12345, 54321)

    def test_extended_attributes_of_a_replaced_file_are_kept(self, workspace: Workspace, root: Path) -> None:
        try:
            os.setxattr(root / "src" / "main.py", "user.note", b"kept")
        except OSError:
            pytest.skip("this file system has no extended attributes")

        write(workspace, "src/main.py")

        assert os.getxattr(root / "src" / "main.py", "user.note") == b"kept"

    def test_the_access_list_of_a_replaced_file_is_kept(self, workspace: Workspace, root: Path) -> None:
        entries = ((1, 6, -1), (2, 4, 65534), (4, 4, -1), (16, 4, -1), (32, 0, -1))
        acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
        try:
            os.setxattr(root / "src" / "main.py", "system.posix_acl_access", acl)
        except OSError:
            pytest.skip("this file system has no access lists")

        write(workspace, "src/main.py")

        assert os.getxattr(root / "src" / "main.py", "system.posix_acl_access") == acl

    def test_missing_folders_are_made(self, workspace: Workspace) -> None:
        write(workspace, "a/b/c.txt")

        assert read(workspace, "a/b/c.txt") == b"new"

    def test_a_failure_leaves_no_file_and_no_folder_behind(self, workspace: Workspace, root: Path) -> None:
        (root / "taken" / "folder").mkdir(parents=True)
        before = listing(root)

        for path in ("taken/folder", "src/main.py/below", "src"):
            with pytest.raises(ToolError):
                write(workspace, path)
        with pytest.raises(ToolError):
            workspace.write_bytes(Place(path=root / "n" / ("x" * 300), name="n/x"), b"")

        assert listing(root) == before

    def test_a_pipe_is_not_replaced(self, workspace: Workspace, root: Path) -> None:
        os.mkfifo(root / "pipe")

        with pytest.raises(ToolError, match="a named pipe"):
            write(workspace, "pipe")

        assert stat.S_ISFIFO((root / "pipe").stat().st_mode)

    @pytest.mark.usefixtures("ordinary_user")
    def test_a_read_only_folder_is_told_and_untouched(self, workspace: Workspace, root: Path) -> None:
        (root / "src").chmod(0o555)
        try:
            with pytest.raises(ToolError, match="permission denied"):
                write(workspace, "src/main.py")
            assert listing(root / "src") == {"main.py": b"print()\n"}
        finally:
            (root / "src").chmod(0o755)

    @pytest.mark.usefixtures("ordinary_user")
    def test_a_read_only_file_is_not_replaced(self, workspace: Workspace, root: Path) -> None:
        (root / "src" / "main.py").chmod(0o444)

        with pytest.raises(ToolError, match="read-only"):
            write(workspace, "src/main.py")

        assert (root / "src" / "main.py").read_text() == "print()\n"

    def test_a_write_that_ends_half_way_leaves_the_old_file_whole(
        self, workspace: Workspace, root: Path
    ) -> None:
        old_handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        old_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old_limit[1]))
        try:
            with pytest.raises(ToolError, match="Nothing was changed"):
                write(workspace, "src/main.py", b"x" * 100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, old_limit)
            signal.signal(signal.SIGXFSZ, old_handler)

        assert listing(root / "src") == {"main.py": b"print()\n"}

    def test_a_place_of_another_workspace_is_refused(self, workspace: Workspace, root: Path) -> None:
        with pytest.raises(ToolError, match="does not lie in this workspace"):
            workspace.write_bytes(Place(path=root.parent / "app-evil" / "x", name="x"), b"x")

    @given(content=st.binary(max_size=200))
    def test_any_bytes_come_back_as_written(
        self, tmp_path_factory: pytest.TempPathFactory, content: bytes
    ) -> None:
        workspace = Workspace.open(tmp_path_factory.getbasetemp())

        write(workspace, "round-trip", content)

        assert read(workspace, "round-trip") == content
