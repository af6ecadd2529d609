"""The trees of a shadow repository: reading, comparing, changing and keeping them. Nothing here looks at the workspace."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from chimera.errors import WorkspaceError
from chimera.workspace.annex import Annex, load_annex
from chimera.workspace.git_program import GitError, GitProgram

_TREE_ID = re.compile(r"[0-9a-f]{40,64}")
_RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,99}")
_BATCH = 16
"""Contents asked for at once. Each has at most 10 MiB."""


class Entry(Struct, frozen=True):
    """A file or link in a tree."""

    mode: str
    """As git writes it: `100644`, `100755` or `120000`."""
    oid: str


class Trees(Struct, frozen=True, kw_only=True):
    """The trees in a git directory of our own. Paths are bytes, relative to the workspace.

    Raises:
        WorkspaceError: from every method, when git fails or a tree is not there (any more).
    """

    git: GitProgram
    git_dir: Path

    def entries(self, tree: str) -> dict[bytes, Entry]:
        """Every file of a tree."""
        records = self._run("ls-tree", "-r", "-z", "--full-tree", check_id(tree)).split(b"\0")[:-1]
        found = {}
        for record in records:
            about, _, path = record.partition(b"\t")
            mode, _, oid = about.decode("ascii").split(" ")
            found[path] = Entry(mode, oid)
        return found

    def differences(self, before: str, after: str) -> dict[bytes, tuple[Entry | None, Entry | None]]:
        """The files that differ between two trees, as they are in each."""
        trees = (check_id(before), check_id(after))
        words = self._run("diff-tree", "-r", "-z", "--no-renames", *trees).split(b"\0")[:-1]
        found = {}
        for about, path in zip(words[::2], words[1::2], strict=True):
            modes_and_ids = about.decode("ascii").removeprefix(":").split(" ")
            old, new = (Entry(*pair) for pair in zip(modes_and_ids[:2], modes_and_ids[2:4], strict=True))
            found[path] = (_existing(old), _existing(new))
        return found

    def contents(self, oids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """The bytes of files and the targets of links, in the order asked for."""
        for start in range(0, len(oids), _BATCH):
            asked = oids[start : start + _BATCH]
            output = memoryview(self._run("cat-file", "--batch", stdin="\n".join(asked).encode() + b"\n"))
            for oid in asked:
                header = bytes(output[:200]).partition(b"\n")[0]
                words = header.split(b" ")
                if len(words) != 3:
                    raise WorkspaceError(f"a recorded content is missing: {header.decode(errors='replace')}")
                begin = len(header) + 1
                end = begin + int(words[2])
                yield oid, bytes(output[begin:end])
                output = output[end + 1 :]

    def graft(self, tree: str, changes: Mapping[bytes, Entry | None]) -> str:
        """The tree in which these files are as given; None takes one out. Held by the caller's lock."""
        index = self.git_dir / "graft.index"
        for left_over in (index, index.with_name("graft.index.lock")):
            left_over.unlink(missing_ok=True)
        git = self.git.with_index(index)
        gone = b"".join(b"0 %s\t%s\0" % (b"0" * len(tree), path) for path, e in changes.items() if not e)
        new = b"".join(
            b"%s %s\t%s\0" % (entry.mode.encode(), entry.oid.encode(), path)
            for path, entry in changes.items()
            if entry
        )
        options = [f"--git-dir={self.git_dir}"]
        git.run([*options, "read-tree", check_id(tree)], cwd=self.git_dir)
        git.run(
            [*options, "update-index", "--add", "--replace", "-z", "--index-info"],
            cwd=self.git_dir,
            stdin=gone + new,
        )
        made = git.run([*options, "write-tree"], cwd=self.git_dir).decode("ascii").strip()
        index.unlink(missing_ok=True)
        return made

    def merged(self, oid: str, *, base: str, other: str) -> str | None:
        """A content with what leads from `base` to `other` done to it as well; None where the two are in each other's way.

        The caller holds the lock.
        """
        names = [self.git_dir / f"merge-{n}.tmp" for n in range(3)]
        for name, (_, content) in zip(names, self.contents([oid, base, other]), strict=True):
            name.write_bytes(content)
        try:
            content = self._run("merge-file", "--stdout", "--quiet", *map(str, names))
        except GitError:  # a conflict, or no text
            return None
        return (
            self._run("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode("ascii").strip()
        )

    def annex(self, run_id: str, name: str) -> Annex:
        """What goes with a tree of a run."""
        return load_annex(self.annexes(run_id), name)

    def annexes(self, run_id: str) -> Path:
        """Where the annexes of a run are."""
        return self.git_dir / "annexes" / _check_run_id(run_id)

    def keep(self, run_id: str, tree: str) -> None:
        """Name a tree in the shadow repository, so that git never takes it for rubbish while the run is kept."""
        folder = self._refs / _check_run_id(run_id)
        if (folder / check_id(tree)).exists():
            return
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # By hand and not by git, whose lock file would stay behind when killed.
        temporary = self.git_dir / "ref.tmp"
        temporary.write_text(f"{tree}\n", encoding="ascii")
        temporary.replace(folder / tree)

    def kept_runs(self) -> list[str]:
        """The runs whose trees are kept, oldest first."""
        return sorted(path.name for path in self._refs.iterdir()) if self._refs.is_dir() else []

    def drop_runs(self, run_ids: Sequence[str]) -> None:
        """Forget the trees of runs and free what only they held."""
        for run_id in run_ids:
            for folder in (self._refs / _check_run_id(run_id), self.annexes(run_id)):
                shutil.rmtree(folder, ignore_errors=True)
        self._run("prune", "--expire=now")

    def size(self) -> int:
        """Bytes on disk."""
        total, waiting = 0, [str(self.git_dir)]
        while waiting:
            with suppress(OSError), os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        return total

    @property
    def _refs(self) -> Path:
        return self.git_dir / "refs" / "runs"

    def _run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        return self.git.run([f"--git-dir={self.git_dir}", *arguments], cwd=self.git_dir, stdin=stdin)


def content_id(content: bytes, like: str) -> str:
    """The id that git gives these bytes, in the format of another id."""
    algorithm = "sha1" if len(like) == 40 else "sha256"
    header = b"blob %d\0" % len(content)
    return hashlib.new(algorithm, header + content, usedforsecurity=False).hexdigest()


def check_id(tree: str) -> str:
    """The id itself.

    Raises:
        WorkspaceError: it is none.
    """
    if not _TREE_ID.fullmatch(tree):
        raise WorkspaceError(f"{tree!r} is not the id of a snapshot")
    return tree


def _check_run_id(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise WorkspaceError(f"{run_id!r} is not the id of a run")
    return run_id


def _existing(entry: Entry) -> Entry | None:
    return None if set(entry.mode) == {"0"} else entry
