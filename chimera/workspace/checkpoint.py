"""Snapshots of the workspace in a git directory of our own, so that a run's changes can be told from the user's.

The user's repository is only read: its index for the names of tracked files, its ignore rules. Bytes stay bytes: no
filter, line-end conversion or encoding applies, whatever the attributes of the repository say.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.annex import Annex, keep_annex
from chimera.workspace.candidates import Candidates, find_candidates, shown_name
from chimera.workspace.clock import COARSEST_NS, surely_past
from chimera.workspace.git_program import GitError, GitProgram, find_git
from chimera.workspace.ignore_rules import IgnoreRules
from chimera.workspace.tree_watch import Stamp, TreeWatch
from chimera.workspace.trees import Entry, Trees, check_id

MAX_FILES = 50_000
MANY_FILES = 2_000
"""Copying so many takes most of a second: 0.35 ms each (`python -m tests.benchmarks.checkpoint`, two cores)."""
MAX_TOTAL_BYTES = 2 * 1024**3
QUOTA_BYTES = 2 * 1024**3
"""What the snapshots of one workspace may take on disk before those of its oldest runs go."""
_RULES = "rules"
"""Beside the annexes of a run: the ignore rules of its first snapshot."""
# Each clause undoes one way in which attributes of the repository make git change bytes or run a program.
_ATTRIBUTES = (
    "* -text !eol -filter -ident -working-tree-encoding !diff !merge !conflict-marker-size !whitespace\n"
)


class Snapshot(Struct, frozen=True, kw_only=True):
    """The state of the workspace at one moment."""

    tree: str
    """Id of a git tree in the shadow repository."""
    omitted: tuple[str, ...]
    """Paths that could not be recorded, as people read them: too large, unreadable, no regular file."""
    paths: frozenset[bytes]
    """What was recorded, relative to the workspace."""
    annex: str | None = None
    """Name of what goes with the tree, for a snapshot that belongs to a run."""
    ignored: str | None = None
    """Name of an annex of its own that lists what rules excluded, if it was asked for."""
    by_new_rules: bool = False
    """By the rules of the run's first snapshot this one would have been too large, so the rules of now were obeyed."""


class FileChange(Struct, frozen=True, kw_only=True):
    """A file that differs between two snapshots. A rename is one file removed and one added."""

    path: str
    """Relative to the workspace; bytes that are not UTF-8 as escapes."""
    added: int
    """Lines; 0 for binary files and changes of mode."""
    removed: int


class ShadowRepository:
    """The git directory that holds the snapshots of one workspace. Made when first used, kept between runs.

    Raises:
        WorkspaceError: from every method, when git is missing or fails, or the workspace is too large to record.
    """

    def __init__(
        self,
        state_dir: Path,
        root: Path,
        *,
        max_files: int = MAX_FILES,
        tell: Callable[[int], None] = lambda count: None,
    ) -> None:
        """Name the git directory of a workspace.

        Args:
            state_dir: where it lies.
            root: the workspace.
            max_files: that a snapshot may have.
            tell: called before a snapshot that must copy many files, with their number.
        """
        self._max_files = max_files
        self._tell = tell
        self._root = root.resolve()
        self._state_dir = state_dir.resolve()
        name = hashlib.sha256(os.fsencode(self._root)).hexdigest()[:24]
        self._git_dir = self._state_dir / "shadow" / name
        self._memory: tuple[tuple[int, int, int] | None, Mapping[bytes, Stamp]] | None = None
        """How this object left the kept index, and the files in it. Saves git to look at each of them again."""
        self._watch = TreeWatch(self._root)

    def snapshot(
        self, *, run_id: str | None = None, also: Iterable[bytes] = (), with_ignored: bool = False
    ) -> Snapshot:
        """Record every tracked and untracked file; files that the user's rules ignore are not part of it.

        Args:
            run_id: keep the tree and its annex until the snapshots of this run are dropped. The rules are those of its
                first snapshot that was taken `with_ignored`.
            also: files to record although rules ignore them.
            with_ignored: list in an annex of its own which files the rules ignore; for a snapshot of a run.
        """
        git = find_git(process_environment(), outside=self._root)
        look = self._watch.look()
        self._watch.forget()
        with self._prepared(git):
            found, by_new_rules = self._candidates(git, run_id, also, with_ignored)
            try:
                tree = self._record(git, found.files)
            except GitError:
                # The kept index may be damaged, or a file may have vanished meanwhile. Once more, from nothing.
                self._index.unlink(missing_ok=True)
                tree = self._record(git, found.files)
            annex = ignored = None
            if run_id is not None:
                annex = self._keep(git, run_id, tree, _annex(found))
            if run_id is not None and with_ignored:
                ignored = self._keep(
                    git, run_id, tree, Annex(unrecorded=dict.fromkeys(found.ignored, "ignored"))
                )
        if run_id is not None and not by_new_rules:
            self._watch.keep(look, found.files, found.omitted)
        return Snapshot(
            tree=tree,
            omitted=tuple(sorted(map(shown_name, found.omitted))),
            paths=frozenset(found.files),
            annex=annex,
            ignored=ignored,
            by_new_rules=by_new_rules,
        )

    def unchanged(self) -> bool:
        """Whether a snapshot of the same run now, of no further files, would surely be as the last one of this object."""
        return self._watch.unchanged()

    def graft(
        self, run_id: str, tree: str, changes: Mapping[bytes, Entry | None], annex: Annex
    ) -> tuple[str, str]:
        """Keep, for a run, a tree in which these files are as given, and its annex. Returns the ids of both."""
        git = find_git(process_environment(), outside=self._root)
        with self._prepared(git):
            made = Trees(git=git, git_dir=self._git_dir).graft(tree, changes)
            return made, self._keep(git, run_id, made, annex)

    def keep_within(self, quota_bytes: int, *, but: Collection[str]) -> tuple[str, ...]:
        """Drop the snapshots of the oldest runs until all take at most `quota_bytes`, those of `but` never.

        Returns:
            The runs that cannot be undone any more.
        """
        git = find_git(process_environment(), outside=self._root)
        dropped: list[str] = []
        with self._prepared(git):
            trees = Trees(git=git, git_dir=self._git_dir)
            for run_id in trees.kept_runs():
                if trees.size() <= quota_bytes:
                    break
                if run_id not in but:
                    trees.drop_runs([run_id])
                    dropped.append(run_id)
        return tuple(dropped)

    def trees(self) -> Trees:
        """What has been recorded so far."""
        return Trees(git=find_git(process_environment(), outside=self._root), git_dir=self._git_dir)

    @contextmanager
    def opened(self) -> Iterator[Trees]:
        """What has been recorded so far, ours alone to add to for the duration of the block."""
        git = find_git(process_environment(), outside=self._root)
        with self._prepared(git):
            yield Trees(git=git, git_dir=self._git_dir)

    def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """Every file that differs between two trees, sorted by path."""
        output = self._compare(before, after, "--numstat", "-z")
        changes = []
        for record in output.split(b"\0")[:-1]:
            added, removed, path = record.split(b"\t", 2)
            # git writes "-" for both counts of a binary file
            counts = [int(count) if count.isdigit() else 0 for count in (added, removed)]
            changes.append(FileChange(path=shown_name(path), added=counts[0], removed=counts[1]))
        return tuple(changes)

    def diff(self, before: str, after: str) -> str:
        """The unified patch from one tree to the other; bytes that are not UTF-8 become U+FFFD."""
        return self._compare(before, after, "--patch", "--no-color").decode("utf-8", "replace")

    def _candidates(
        self, git: GitProgram, run_id: str | None, also: Iterable[bytes], with_ignored: bool
    ) -> tuple[Candidates, bool]:
        """What to record, and whether the rules of now had to be obeyed instead of those of the first snapshot."""
        kept = None if run_id is None else Trees(git=git, git_dir=self._git_dir).annexes(run_id) / _RULES
        rules = None if kept is None else IgnoreRules.load(kept)
        also = tuple(also)
        if rules is not None:
            with suppress(WorkspaceError):
                return self._find(git, also, with_ignored, rules), False
        found = self._find(git, also, with_ignored, None)
        if kept is not None and rules is None and with_ignored:
            found.rules.keep(kept)
        return found, rules is not None

    def _find(
        self, git: GitProgram, also: Iterable[bytes], with_ignored: bool, rules: IgnoreRules | None
    ) -> Candidates:
        found = find_candidates(
            git,
            self._git_dir,
            self._root,
            at_most=self._max_files,
            excluded=self._state_dir,
            also=also,
            with_ignored=with_ignored,
            rules=rules,
        )
        if found.total_bytes > MAX_TOTAL_BYTES:
            raise WorkspaceError(
                f"the workspace {str(self._root)!r} holds {found.total_bytes:,} bytes outside ignored folders, too much to "
                f"record (at most {MAX_TOTAL_BYTES:,}); ignore what git need not see"
            )
        return found

    @property
    def _index(self) -> Path:
        return self._git_dir / "index"

    def _compare(self, before: str, after: str, *options: str) -> bytes:
        trees = (check_id(before), check_id(after))
        git = find_git(process_environment(), outside=self._root)
        fixed = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")
        return git.run([*self._options(), *fixed, *options, *trees, "--"], cwd=self._git_dir)

    def _options(self) -> list[str]:
        return [f"--git-dir={self._git_dir}", f"--work-tree={self._root}", "-c", "core.bare=false"]

    @contextmanager
    def _prepared(self, git: GitProgram) -> Iterator[None]:
        """The git directory exists and is ours alone for the duration of the block."""
        try:
            self._git_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self._git_dir / "chimera.lock").open("wb")
        except OSError as fault:
            raise WorkspaceError(f"{str(self._git_dir)!r} cannot be used: {fault.strerror}") from fault
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self._prepare(git)
                yield
            except OSError as fault:
                raise WorkspaceError(f"{str(self._git_dir)!r} cannot be written: {fault.strerror}") from fault

    def _prepare(self, git: GitProgram) -> None:
        # Whoever left this one behind is dead: nobody else holds our lock.
        (self._git_dir / "index.lock").unlink(missing_ok=True)
        attributes = self._git_dir / "info" / "attributes"
        if attributes.is_file() and attributes.read_text(encoding="ascii") == _ATTRIBUTES:
            return
        git.run(["init", "--quiet", "--bare", "--template=", str(self._git_dir)], cwd=self._git_dir)
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text(_ATTRIBUTES, encoding="ascii")

    def _keep(self, git: GitProgram, run_id: str, tree: str, annex: Annex) -> str:
        trees = Trees(git=git, git_dir=self._git_dir)
        trees.keep(run_id, tree)
        return keep_annex(trees.annexes(run_id), annex)

    def _record(self, git: GitProgram, files: Mapping[bytes, Stamp]) -> str:
        """Bring the kept index to exactly these files and write it as a tree."""
        started, last = self._git_dir / "started.tmp", self._git_dir / "started"
        started.write_bytes(b"")
        last_ns = last.stat().st_mtime_ns if last.exists() else 0
        options = self._options()
        kept = self._kept(git)
        # git compares sizes and whole seconds, and would miss an edit right after a snapshot whose time was put back.
        recent = (last_ns, 0)
        changed = {path for path, stamp in files.items() if kept.get(path) != stamp}
        unsure = [
            path
            for path in kept
            if (stamp := files.get(path, recent)[0]) >= last_ns - COARSEST_NS
            and (path in changed or not surely_past(stamp, last_ns))
        ]
        changed.update(path for path in unsure if path in files)
        self._memory = None
        update = [*options, "update-index", "-z"]
        if unsure:
            git.run([*update, "--force-remove", "--stdin"], cwd=self._root, stdin=_records(unsure))
        new = sum(path not in kept for path in changed)
        if new >= MANY_FILES:
            self._tell(new)
        if changed:
            add = [*update, "--add", "--remove", "--replace", "--stdin"]
            git.run(add, cwd=self._root, stdin=_records(sorted(changed)))
        tree = git.run([*options, "write-tree"], cwd=self._root).decode("ascii").strip()
        started.replace(last)
        self._memory = (self._index_stamp(), files)
        return tree

    def _kept(self, git: GitProgram) -> Mapping[bytes, Stamp | None]:
        """What the kept index holds, with the stamps of the files if it is as this object left it."""
        if self._memory is not None and self._memory[0] == self._index_stamp():
            return self._memory[1]
        names = git.run([*self._options(), "ls-files", "-z", "--cached"], cwd=self._root).split(b"\0")[:-1]
        return dict.fromkeys(names)

    def _index_stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._index.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size


def _annex(found: Candidates) -> Annex:
    return Annex.of_modes(found.modes, found.folders, found.omitted)


def _records(paths: Iterable[bytes]) -> bytes:
    return b"".join(path + b"\0" for path in paths)
