"""What commands can do to git repositories in the workspace. Each denial is proved at the repository, by git itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from chimera.config import process_environment
from chimera.workspace.environment import child_environment
from chimera.workspace.git_disarm import Disarming
from chimera.workspace.git_guard import GitGuard
from chimera.workspace.process import CommandRunner
from chimera.workspace.sandbox import SandboxBackend, open_sandbox

Git = Callable[..., str]
Contents = dict[str, bytes | None]
AUTHOR = "-c user.name=B -c user.email=b@example.org"


class Desk:
    """A workspace whose commands run confined, and a mark that shows that git ran something."""

    def __init__(self, folder: Path, git: Git) -> None:
        self.folder = folder.resolve()
        self.root = self.folder / "workspace"
        self.mark = self.folder / "executed"
        self.aside = self.folder / "aside"
        self.root.mkdir()
        self._git = git
        self._runner: CommandRunner | None = None
        self.notes: list[str] = []

    def repository(self, name: str = ".", *options: str) -> Path:
        """A repository with a commit."""
        place = self.root / name
        place.mkdir(parents=True, exist_ok=True)
        self._git(place, "init", "--quiet", *options)
        (place / "a").write_text("a\n")
        self._git(place, "add", "a")
        self._git(place, "commit", "--quiet", "-m", "first")
        return place

    def open(self, *, backend: SandboxBackend = "bwrap", allow_git_write: bool = False) -> None:
        sandbox = open_sandbox(
            "workspace-write",
            self.root,
            allow_net=False,
            allow_git_write=allow_git_write,
            required=True,
            environment=process_environment(),
            backends=(backend,),
        )
        assert sandbox.guard is not None
        sandbox.guard.disarm = Disarming(root=self.root, aside=self.aside)
        self.missing = sandbox.missing
        self._runner = CommandRunner(
            self.root, sandbox, child_environment(process_environment()), self.folder
        )

    def run(self, *commands: str) -> str:
        """Run commands one after the other; returns what they printed."""
        assert self._runner is not None
        told = []
        for command in commands:
            result = self._runner.run(command, 60)
            told.append(result.output.decode())
            self.notes += result.notes
        return "".join(told)

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()

    @property
    def trap(self) -> str:
        """A command that leaves the mark."""
        return f"touch {self.mark}"

    def entered(self, *places: str) -> bool:
        """Whether git runs something when the user works in these folders."""
        for place in places:
            for words in ("status", "add .", "commit --quiet --allow-empty --message=x", "diff", "log -1 -p"):
                self.as_user(place, *words.split())
        return self.mark.exists()

    def as_user(self, place: str, *arguments: str) -> str:
        home = self.folder / "git-home"
        done = subprocess.run(
            ["git", "-c", "user.name=U", "-c", "user.email=u@example.org", *arguments],
            cwd=self.root / place,
            env={"PATH": process_environment()["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        return done.stdout


@pytest.fixture
def desk(tmp_path: Path, git: Git, bubblewrap: None) -> Iterator[Desk]:
    opened = Desk(tmp_path, git)
    yield opened
    opened.close()


def contents(folder: Path) -> Contents:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def governing(folder: Path) -> Contents:
    """What of a git folder, and of those of its worktrees, decides what git runs."""
    main = ("config", "config.worktree", "commondir", "hooks", "info", "modules")
    return {
        name: content
        for name, content in contents(folder).items()
        if name.split("/")[0] in main
        or (
            name.startswith("worktrees/")
            and name.split("/")[2:3] in (["config.worktree"], ["commondir"], ["gitdir"])
        )
    }


def evil(desk: Desk, folder: str) -> str:
    """A command that sets every trap in a git folder."""
    hooks = "pre-commit post-commit post-index-change reference-transaction post-checkout"
    return (
        f"mkdir -p {folder}/hooks {folder}/info; for h in {hooks}; do"
        f" printf '#!/bin/sh\\n{desk.trap}\\n' > {folder}/hooks/$h; chmod +x {folder}/hooks/$h; done;"
        f' printf \'[core]\\n\\tfsmonitor = "{desk.trap};false"\\n[filter "f"]\\n\\tclean = "{desk.trap};cat"\\n\''
        f" >> {folder}/config; echo '* filter=f' > {folder}/info/attributes;"
    )


class TestWhatWasThere:
    @pytest.mark.parametrize(
        "escape",
        [
            "mv vendor/dep vendor/dep2",
            "mv vendor vendor2; mkdir vendor",
            "mv vendor/dep vendor/.x; mkdir vendor/dep; mv vendor/.x vendor/dep/y",
            "mkdir deep; mv vendor deep/vendor",
            'python3 -c \'import os; os.rename("vendor", "v")\'; ln -s v vendor',
            "cp -r vendor v; rm -rf vendor; mv v vendor",
            "mv vendor/dep/.git vendor/dep/x; mkdir vendor/dep/.git",
        ],
    )
    def test_a_nested_repository_that_one_command_moves_is_not_the_nexts_to_write(
        self, desk: Desk, escape: str
    ) -> None:
        desk.repository()
        git_folder = desk.repository("vendor/dep") / ".git"
        before = contents(git_folder)
        desk.open()

        desk.run(escape, f"for g in $(find . -name .git -not -path ./.git); do {evil(desk, '$g')} done")

        assert contents(git_folder) == before
        assert not desk.entered(".", "vendor/dep")

    def test_of_many_repositories_those_that_can_be_moved_are_found_again(self, desk: Desk, git: Git) -> None:
        for number in range(30):
            git(desk.root, "init", "--quiet", f"dep{number}")
        before = {n: contents(desk.root / f"dep{n}" / ".git") for n in range(30)}
        desk.open()

        desk.run(
            "mkdir x; for n in $(seq 0 29); do mv dep$n x/$n 2>/dev/null; done; chmod 311 x x/*; ls -d dep*/ | wc -l",
            "chmod 755 x x/*; for g in */.git */*/.git; do echo x >> $g/config; echo x > $g/hooks/pre-commit; done",
        )

        moved = {
            n: desk.root / "x" / str(n) / ".git" for n in range(30) if (desk.root / "x" / str(n)).exists()
        }
        assert len(moved) == 10
        for number, content in before.items():
            place = moved.get(number, desk.root / f"dep{number}" / ".git")
            assert contents(place) == content

    @pytest.mark.parametrize("kind", ["submodule", "worktree", "store", "link"])
    def test_what_a_pointer_leads_to_is_protected_as_well(self, desk: Desk, git: Git, kind: str) -> None:
        root = desk.repository()
        checkout, folder = root / "part", root / "store" / "git"
        match kind:
            case "submodule":
                git(root, "clone", "--quiet", "--bare", ".", str(desk.folder / "origin"))
                git(root, "submodule", "--quiet", "add", str(desk.folder / "origin"), "part")
                folder = root / ".git" / "modules" / "part"
            case "worktree":
                git(root, "worktree", "add", "--quiet", str(checkout))
                folder = root / ".git"
            case _:
                folder.parent.mkdir()
                desk.repository("part", "--separate-git-dir", str(folder))
        if kind == "link":
            (checkout / ".git").unlink()
            (checkout / ".git").symlink_to("../store/git")
        before = contents(folder)
        entry = str((checkout / ".git").readlink()) if kind == "link" else (checkout / ".git").read_text()
        desk.open()

        desk.run(
            f"mv store s; mv part p; rm -rf store part/.git; {evil(desk, 'store/git')} {evil(desk, 'evil')}"
            "cp -r part/.git/* evil; echo 'gitdir: ../evil' > part/.git; ln -sfn ../evil part/.git",
            f"{evil(desk, 'store/git')} {evil(desk, 's/git')} {evil(desk, 'part/.git')}; mv part/.git x",
        )

        assert contents(folder) == before
        assert entry == (
            str((checkout / ".git").readlink()) if kind == "link" else (checkout / ".git").read_text()
        )
        assert not desk.entered(".", "part")

    def test_a_bare_repository_and_the_worktrees_in_it_are_protected_and_can_be_worked_in(
        self, desk: Desk, git: Git
    ) -> None:
        desk.repository("seed")
        git(desk.root, "clone", "--quiet", "--bare", "seed", "bare")
        git(desk.root / "bare", "worktree", "add", "--quiet", "tree")
        before = {
            name: content for name, content in contents(desk.root / "bare").items() if "tree/" not in name
        }
        desk.open()

        told = desk.run(
            f"mv bare b; {evil(desk, 'bare')} echo . > bare/commondir; echo x > bare/HEAD; rm -rf bare/refs bare/objects",
            "cd bare/tree && echo more >> a && cat a && git log --format=%s",
        )

        after = {
            name: content for name, content in contents(desk.root / "bare").items() if "tree/" not in name
        }
        assert after == before
        assert told.endswith("a\nmore\nfirst\n")
        assert not desk.entered("bare", "bare/tree")

    def test_a_repository_that_the_user_moves_or_makes_between_commands_is_protected_and_kept(
        self, desk: Desk
    ) -> None:
        desk.repository("one")
        desk.open()
        desk.run("true")
        (desk.root / "one").rename(desk.root / "two")
        own = desk.repository("three") / ".git"
        (own / "hooks" / "pre-commit").write_text("#!/bin/sh\n# the user's\n")
        before = contents(desk.root / "two" / ".git") | contents(own)

        desk.run(evil(desk, "two/.git") + evil(desk, "three/.git"), "true")

        assert contents(desk.root / "two" / ".git") | contents(own) == before
        assert desk.notes == []

    def test_settings_that_git_includes_from_the_workspace_are_protected(self, desk: Desk, git: Git) -> None:
        root = desk.repository()
        (root / "shared").mkdir()
        (root / "shared" / "settings").write_text("[user]\n\tname = x\n")
        git(root, "config", "include.path", "../shared/settings")
        desk.open()

        desk.run(
            f"mv shared s; mkdir shared; {evil(desk, 'x')} cp x/config shared/settings; cp x/config s/settings",
            "cp x/config shared/settings; rm -rf x; mv shared y",
        )

        assert (root / "shared" / "settings").read_text() == "[user]\n\tname = x\n"
        assert not desk.entered(".")

    def test_a_repository_that_goes_is_told(self, desk: Desk) -> None:
        desk.repository("dep")
        desk.open()
        desk.run("true")
        subprocess.run(["rm", "-rf", str(desk.root / "dep" / ".git")], check=True)

        desk.run("true", "true")

        (note,) = desk.notes
        assert note.startswith("dep/.git is gone")

    def test_a_move_across_a_folder_that_holds_a_repository_works_as_across_file_systems(
        self, desk: Desk
    ) -> None:
        desk.repository("vendor/dep")
        desk.open()

        told = desk.run(
            "echo x > f && mv f vendor/dep/f && mv vendor/dep/f vendor/g && mv vendor/g . && cat g"
        )

        assert told == "x\n"


class TestAllowedWriting:
    @pytest.mark.parametrize("folder", [".git", ".git/worktrees/tree"])
    def test_nothing_in_a_git_folder_leads_to_other_settings(self, desk: Desk, git: Git, folder: str) -> None:
        root = desk.repository(".", "--template=")
        git(root, "worktree", "add", "--quiet", str(root / "tree"))
        git(root, "config", "extensions.worktreeConfig", "true")
        before = governing(root / ".git")
        desk.open(allow_git_write=True)

        desk.run(
            f"cp -r .git evil; {evil(desk, 'evil')} mv {folder} {folder}2; ln -sfn evil .git",
            f"for n in commondir gitdir config.worktree config; do echo $PWD/evil > {folder}/$n;"
            f" cp evil/config {folder}/$n; mv evil/config {folder}/$n; rm -f {folder}/$n; ln -s x {folder}/$n; done",
            f"{evil(desk, folder)} {evil(desk, '.git/modules/m')} {evil(desk, '.git/worktrees/w')}"
            f"echo $PWD/evil > {folder}/commondir; git config core.fsmonitor ./x; git config --worktree core.fsmonitor x",
        )
        subprocess.run(["rm", "-rf", str(root / "evil")], check=True)

        assert governing(root / ".git") == before
        assert not desk.entered(".", "tree")

    def test_the_ordinary_work_of_git_works_and_leaves_no_ghosts(self, desk: Desk) -> None:
        root = desk.repository(".", "--template=")
        desk.open(allow_git_write=True)
        at_top = {p.name for p in (root / ".git").iterdir()}

        told = desk.run(
            f"set -e; git config user.name || true; g='git {AUTHOR}'; echo b > b; $g add b; $g commit -qm second;"
            "$g branch side; $g checkout -q side; echo c > c; $g add -A; $g commit -qm third; $g checkout -q main;"
            "echo d > d; $g add d; $g commit -qm fourth; $g merge -q --no-edit side; $g log --format=%s | wc -l",
            f"set -e; g='git {AUTHOR}'; echo x >> a; $g stash -q; cat a; $g stash pop -q; $g commit -qam fifth;"
            "$g checkout -q -b topic HEAD~1; echo t > t; $g add t; $g commit -qm topic; $g rebase -q main;"
            "$g checkout -q main; $g cherry-pick topic >/dev/null; $g tag v1; $g reset -q --hard HEAD~1; $g branch -D side 2>/dev/null",
            f"set -e; g='git {AUTHOR}'; $g commit -q --amend -m last; $g pack-refs --all; $g gc --quiet --prune=now 2>/dev/null;"
            "$g worktree list | wc -l; $g restore --source=v1 t; $g rm -qf --cached a; $g reset -q; rm t; $g status -s; $g log -1 --format=%s",
            f"echo y > a; git {AUTHOR} commit -qam y; git checkout -q topic; echo z > a; git {AUTHOR} commit -qam z;"
            f"git {AUTHOR} rebase main >/dev/null 2>&1; ls .git/rebase-merge/head-name",
            f"git checkout --theirs a 2>/dev/null; git add a; git {AUTHOR} rebase --continue >/dev/null 2>&1; git log -3 --format=%s",
        )

        lines = [line.partition(" (")[0] for line in told.splitlines()]
        assert lines == [
            "5",
            "a",
            "Deleted branch side",
            "1",
            "last",
            ".git/rebase-merge/head-name",
            "z",
            "topic",
            "y",
        ]
        assert desk.as_user(".", "fsck", "--strict", "--no-dangling") == ""
        assert desk.as_user(".", "status", "--short") == ""
        new = {p.name for p in (root / ".git").iterdir()} - at_top
        assert not new & {
            "commondir",
            "config.worktree",
            "hooks",
            "info",
            "modules",
            "worktrees",
            "config.lock",
        }
        assert desk.notes == []

    def test_commits_in_a_linked_worktree_and_a_submodule_work(self, desk: Desk, git: Git) -> None:
        main = desk.folder / "main"
        main.mkdir()
        git(main, "init", "--quiet")
        git(main, "commit", "--quiet", "--allow-empty", "-m", "first")
        desk.root.rmdir()
        git(main, "worktree", "add", "--quiet", "-b", "side", str(desk.root))
        git(desk.root, "submodule", "--quiet", "add", str(main), "part")
        desk.open(allow_git_write=True)

        desk.run(
            f"git {AUTHOR} commit -qm 'with a part'; cd part; git {AUTHOR} commit -q --allow-empty -m inner",
            "echo $PWD/x > $(git rev-parse --git-dir)/commondir; rm -f $(git rev-parse --git-dir)/gitdir",
        )

        assert desk.as_user(".", "log", "-1", "--format=%s") == "with a part\n"
        assert desk.as_user("part", "log", "-1", "--format=%s") == "inner\n"
        assert desk.as_user(".", "worktree", "list").count("\n") == 2

    def test_the_users_git_works_while_a_command_holds_the_places_of_what_is_missing(
        self, desk: Desk
    ) -> None:
        desk.repository(".", "--template=")
        desk.open(allow_git_write=True)
        assert desk._runner is not None
        guard = desk._runner._sandbox.guard
        assert guard is not None

        with guard.holding():
            assert (desk.root / ".git" / "commondir").exists()
            (desk.root / "b").write_text("b\n")
            desk.as_user(".", "add", "b")
            desk.as_user(".", "commit", "-m", "mine")
            desk.as_user(".", "config", "x.y", "z")
            desk.as_user(".", "gc", "--quiet")
            told = desk.as_user(".", "log", "-1", "--format=%s")

        assert told == "mine\n"
        assert desk.as_user(".", "config", "x.y") == "z\n"
        assert not (desk.root / ".git" / "commondir").exists()

    def test_what_a_killed_chimera_left_in_a_git_folder_is_removed_by_the_next(self, desk: Desk) -> None:
        desk.repository(".", "--template=")
        desk.open(allow_git_write=True)
        assert desk._runner is not None
        guard = desk._runner._sandbox.guard
        assert guard is not None
        killed = guard.holding()
        killed.__enter__()
        assert (desk.root / ".git" / "commondir").exists()

        desk.open()
        desk.run("true")

        assert not (desk.root / ".git" / "commondir").exists()


MADE = {
    "checkout": "git init -q new; {evil[new/.git]}",
    "root": "git init -q .; {evil[.git]}",
    "bare": "git init -q --bare new; {evil[new]}",
    "pointer": "git init -q --separate-git-dir store new; {evil[store]}",
    "odd pointer": "git init -q --separate-git-dir ' s' new; echo 'gitdir:  s' > new/.git; mv ' s' 'new/ s'; {evil[new/?s]}",
    "link": "git init -q x; mkdir new; mv x/.git store; ln -s ../store new/.git; {evil[store]}",
    "common folder": "git init -q new; cp -r new/.git c; echo ../../c > new/.git/commondir; {evil[c]}",
    "settings as a link": "git init -q new; mv new/.git/config f; ln -s ../../f new/.git/config; {evil[new/.git]}",
    "hooks as a link": "git init -q new; rm -rf new/.git/hooks; mkdir h; ln -s ../../h new/.git/hooks; {evil[new/.git]}",
    "hooks elsewhere": "git init -q new; {evil[h]} git -C new config core.hooksPath ../h/hooks",
    "included": "git init -q new; {evil[x]} git -C new config include.path ../../x/config",
    "worktree settings": "git init -q new; git -C new config extensions.worktreeConfig true; {evil[x]}"
    " cp x/config new/.git/config.worktree",
    "later": "git init -q new",
    "pipe": "git init -q new; {evil[new/.git]} rm new/.git/config; mkfifo new/.git/config",
}


@pytest.mark.parametrize(
    ("kind", "backend"),
    [*((kind, "bwrap") for kind in MADE), ("checkout", "landlock"), ("pointer", "landlock")],
)
def test_a_repository_that_a_command_makes_runs_nothing_when_the_user_enters_it(
    desk: Desk, kind: str, backend: SandboxBackend, request: pytest.FixtureRequest
) -> None:
    if backend == "landlock":
        request.getfixturevalue("landlock")
    desk.open(backend=backend)
    command = MADE[kind]
    while "{evil[" in command:
        before, _, rest = command.partition("{evil[")
        folder, _, after = rest.partition("]}")
        command = before + evil(desk, folder) + after
    desk.run(command)
    if kind == "later":
        desk.run(evil(desk, "new/.git"))

    assert not desk.entered("." if kind == "root" else "new")
    assert desk.notes
    assert all(
        str(desk.aside) in note or "config was made by a command and removed" in note for note in desk.notes
    )


def test_the_control_of_the_traps_fires(desk: Desk) -> None:
    desk.open()
    assert desk._runner is not None
    guard = desk._runner._sandbox.guard
    assert guard is not None
    guard.disarm = None
    desk.run("git init -q new; " + evil(desk, "new/.git"))

    assert desk.entered("new")


def test_a_repository_that_a_command_makes_can_be_used_by_the_next_ones(desk: Desk) -> None:
    desk.repository("seed")
    desk.open()

    told = desk.run(
        "git clone -q seed new; git -C new config user.name 'A \"B\" \\ C'; git -C new config user.email b@example.org;"
        "git -C new config alias.x '!true'",
        "cd new && git checkout -q -b topic && echo b > b && git add b && git commit -qm second && git log --format='%s %an';"
        "git push -q origin topic 2>&1 | tail -1; git config --get-regexp 'remote.*|branch.main.*'",
    )

    assert told.splitlines()[:2] == ['second A "B" \\ C', "first A"]
    assert f"remote.origin.url {desk.root}/seed" in told
    assert "branch.main.merge refs/heads/main" in told
    assert ["alias.x" in note for note in desk.notes] == [True]


def test_the_repository_around_is_not_made_to_run_what_lies_in_a_submodule_that_was_not_fetched(
    desk: Desk, git: Git
) -> None:
    root = desk.repository()
    git(root, "clone", "--quiet", "--bare", ".", str(desk.folder / "origin"))
    git(root, "submodule", "--quiet", "add", str(desk.folder / "origin"), "part")
    git(root, "commit", "--quiet", "-m", "part")
    git(root, "submodule", "deinit", "--force", "part")
    desk.open()

    desk.run(f"git init -q part; {evil(desk, 'part/.git')}")

    assert not desk.entered(".")


@pytest.mark.parametrize(("folders", "looked_at"), [(5, True), (500, False)])
def test_a_repository_behind_very_many_new_folders_is_found_or_there_is_a_warning(
    tmp_path: Path, git: Git, folders: int, looked_at: bool
) -> None:
    looked: list[Path] = []
    guard = GitGuard(tmp_path, allow_write=False, mounting=False, folders=20)

    class Looking:
        def __call__(self, entries: Iterable[Path], protected: Iterable[Path]) -> list[str]:
            looked.extend(entries)
            return []

        def set_aside(self, path: Path, why: str) -> str:
            raise AssertionError

    guard.disarm = Looking()

    with guard.holding():
        for number in range(folders * 10):
            (tmp_path / f"f{number}").mkdir()
        (tmp_path / "f0" / "new").mkdir()
        git(tmp_path / "f0" / "new", "init", "--quiet")

    assert looked == ([tmp_path / "f0" / "new" / ".git"] if looked_at else [])
    assert len(guard.notes()) == (0 if looked_at else 1)


def test_allowed_writing_hides_no_repository_in_a_git_folder(desk: Desk) -> None:
    desk.repository()
    desk.open(allow_git_write=True)

    desk.run(
        f"cp -r .git x; mv x .git/objects/x; mkdir new; echo 'gitdir: ../.git/objects/x' > new/.git; {evil(desk, '.git/objects/x')}"
    )

    assert not desk.entered("new")


class TestManyFolders:
    """Repositories that were there are protected first, whatever commands make around them."""

    def guard_of(self, root: Path, folders: int = 3) -> GitGuard:
        guard = GitGuard(root, allow_write=False, mounting=True, folders=folders)
        guard.disarm = Disarming(root=root, aside=root.parent / "aside")
        return guard

    def protected(self, guard: GitGuard) -> set[str]:
        with guard.holding() as arguments:
            return {
                str(Path(place).relative_to(guard.root)) for place in arguments if place.endswith("/.git")
            }

    def test_what_commands_make_takes_no_place_of_the_users(self, tmp_path: Path, git: Git) -> None:
        root = tmp_path / "w"
        (root / "a" / "b" / "c").mkdir(parents=True)
        git(root / "a" / "b" / "c", "init", "--quiet")
        guard = self.guard_of(root, folders=1000)
        with guard.holding():
            for number in range(250):
                (root / f"x{number}" / ".git").mkdir(parents=True)
        assert self.protected(guard) == {"a/b/c/.git"}
        assert guard.notes() == ()

    def test_more_than_the_most_are_said_and_the_first_of_them_stay_protected(self, tmp_path: Path) -> None:
        for number in range(201):
            (tmp_path / f"r{number}" / ".git").mkdir(parents=True)
        guard = self.guard_of(tmp_path, folders=1000)
        before = self.protected(guard)
        (tmp_path / "0" / ".git").mkdir(parents=True)
        assert "201" in guard.missing[0]
        assert "all but the first 200" in guard.missing[0]
        assert len(before) == 200
        assert self.protected(guard) == before
        assert len(guard.notes()) == 1

    @pytest.mark.parametrize("moved", [False, True])
    def test_a_known_one_is_found_beyond_every_limit(self, tmp_path: Path, git: Git, moved: bool) -> None:
        root = tmp_path / "w"
        (root / "a").mkdir(parents=True)
        git(root / "a", "init", "--quiet")
        guard = self.guard_of(root)
        with guard.holding():
            for number in range(40):
                (root / f"0{number}" / "0").mkdir(parents=True)
            if moved:
                (root / "a").rename(root / "01" / "0" / "a")
        assert self.protected(guard) == {"01/0/a/.git" if moved else "a/.git"}
        assert any("more than 30 folders" in note for note in guard.notes())

    def test_what_comes_into_sight_again_is_not_taken_for_the_users(self, tmp_path: Path, git: Git) -> None:
        guard = self.guard_of(tmp_path)
        with guard.holding():
            for number in range(40):
                (tmp_path / f"0{number}" / "0").mkdir(parents=True)
            git(tmp_path, "init", "--quiet", "00/0/deep")
        for number in range(1, 40):
            (tmp_path / f"0{number}" / "0").rmdir()
            (tmp_path / f"0{number}").rmdir()
        assert self.protected(guard) == set()


@pytest.mark.parametrize("copied", [False, True])
def test_after_a_kill_what_was_not_there_at_the_start_is_the_killed_commands(
    tmp_path: Path, git: Git, copied: bool
) -> None:
    root = tmp_path / "w"
    for name in ("own", "moved"):
        (root / name).mkdir(parents=True)
        git(root / name, "init", "--quiet")
    recorded = {f"{name}/.git": (root / name / ".git").stat().st_ino for name in ("own", "moved")}
    if copied:
        recorded["own/.git"] = 1
    (root / "moved").rename(root / "there")
    for name in ("moved", "new"):
        (root / name).mkdir()
        git(root / name, "init", "--quiet")
        git(root / name, "config", "core.fsmonitor", "false")
    guard = GitGuard(root, allow_write=False, mounting=False)
    guard.disarm = Disarming(root=root, aside=tmp_path / "aside")

    guard.take_up(recorded)

    assert {str(entry.relative_to(root)) for entry in guard.users_own()} == {"own/.git", "there/.git"}
    assert sorted(note.partition(" was made")[0] for note in guard.notes()) == [
        "moved/.git/config",
        "new/.git/config",
    ]


def test_of_very_many_repositories_all_are_harmless_and_not_each_is_told(tmp_path: Path) -> None:
    for number in range(210):
        folder = tmp_path / "w" / f"r{number}" / ".git"
        folder.mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "config").write_text("[core]\n\tfsmonitor = false\n")
    entries = list((tmp_path / "w").glob("*/.git"))

    notes = Disarming(root=tmp_path / "w", aside=tmp_path / "aside")(entries, [])

    assert not [entry for entry in entries if "fsmonitor" in (entry / "config").read_text()]
    assert len(notes) == 21
    assert notes[-1].startswith("190 more")


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    "name", ["COMMIT_EDITMSG", "logs/HEAD", "index", "refs/heads/x", "objects/info/packs"]
)
def test_git_writes_through_no_link_that_a_command_left(
    tmp_path: Path, git: Git, own: bool, name: str
) -> None:
    root = tmp_path / "w"
    root.mkdir()
    victim = tmp_path / "victim"
    git_folder = root / ".git"
    if own:
        git(root, "init", "--quiet")
        (git_folder / "ORIG_HEAD").symlink_to(victim)
    guard = GitGuard(root, allow_write=True, mounting=False)
    guard.disarm = Disarming(root=root, aside=tmp_path / "aside")
    with guard.holding():
        if not own:
            git(root, "init", "--quiet")
        (git_folder / "refs/remotes").mkdir()
        (git_folder / "refs/remotes/HEAD").symlink_to("../heads/main")
        (git_folder / name).parent.mkdir(exist_ok=True)
        (git_folder / name).unlink(missing_ok=True)
        (git_folder / name).symlink_to(victim)

    left = {str(path.relative_to(git_folder)) for path in git_folder.rglob("*") if path.is_symlink()}
    assert left == {"refs/remotes/HEAD", *(["ORIG_HEAD"] if own else [])}
    (note,) = guard.notes()
    assert f"{name} was made by a command and put aside, since it is a link to {victim}" in note


def test_a_message_is_not_written_into_the_settings(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet")
    guard = GitGuard(tmp_path, allow_write=True, mounting=False)
    guard.disarm = Disarming(root=tmp_path, aside=tmp_path.parent / "aside")
    with guard.holding():
        (tmp_path / ".git" / "COMMIT_EDITMSG").symlink_to("config")
        os.mkfifo(tmp_path / ".git" / "ORIG_HEAD")

    assert not {"COMMIT_EDITMSG", "ORIG_HEAD"} & {path.name for path in (tmp_path / ".git").iterdir()}


def test_what_cannot_be_copied_away_is_made_harmless_where_it_is(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--quiet", "new")
    folder = tmp_path / "new" / ".git"
    hook = folder / "hooks" / "post-checkout"
    hook.write_text("#!/bin/sh\n")
    (folder / "config").write_text("[core]\n\tfsmonitor = false\n")
    (folder / "COMMIT_EDITMSG").symlink_to(tmp_path / "x")
    blocked = tmp_path / "aside"
    blocked.write_text("")  # no folder can be made here, as on a full disk
    disarm = Disarming(root=tmp_path, aside=blocked)

    notes = disarm([folder], [])

    assert not hook.exists()
    assert "fsmonitor" not in (folder / "config").read_text()
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    assert len(notes) == 3
    assert disarm([folder], []) == []
