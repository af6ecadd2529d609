"""Takes out of a repository that a command made whatever git would run, so that entering it later is safe.

Git asks the repository it stands in for programs: hooks, and dozens of settings. An editor that looks into every
repository of a folder, or `git status` of the repository around it, is enough. So settings that are known to start nothing
are kept, all others and the hooks are put aside.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.files import is_folder, open_to_owner, real_path
from chimera.workspace.git_folders import GitFolders, git_folders
from chimera.workspace.git_program import find_git

_MOST_BYTES = 1 << 20
_NAMES_TOLD = 5
# Neither starts a program nor reads another file, whatever its value.
_HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|sharedrepository|abbrev|quotepath|compression|sparsecheckout|sparsecheckoutcone|longpaths|protecthfs"
    r"|protectntfs)"
    r"|extensions\.(objectformat|refstorage|compatobjectformat|worktreeconfig|relativeworktrees|preciousobjects)"
    r"|(user|author|committer)\.(name|email)"
    r"|init\.defaultbranch|pull\.(rebase|ff)|merge\.(ff|conflictstyle|renames|log)|rebase\.(autostash|autosquash)"
    r"|push\.(default|autosetupremote|followtags)|fetch\.(prune|prunetags)|gc\.auto|receive\.deny[a-z]+"
    r"|color\.[a-z]+|column\.[a-z]+|advice\.[a-z]+|diff\.(algorithm|renames|context)|log\.(date|decorate)"
    r"|remote\.[^\n]*\.(fetch|push|tagopt|prune|prunetags|mirror)|remote\.pushdefault"
    r"|branch\.[^\n]*\.(merge|rebase|description)|submodule\.[^\n]*\.(active|branch)|submodule\.active"
)
# Harmless as long as the address does not name a helper program, as `ext::` does.
_ADDRESSES = re.compile(
    r"(remote\.[^\n]*\.(url|pushurl)|branch\.[^\n]*\.(remote|pushremote)|submodule\.[^\n]*\.url)"
)
_HELPER = re.compile(r"\s*(-|[A-Za-z0-9+.-]*::)")
_FRESH = "[core]\n\trepositoryformatversion = 0\n"


@dataclass(slots=True)
class Disarming:
    """Makes the repositories of one workspace harmless that commands made.

    Args:
        root: the workspace, a real path.
        aside: folder for what is taken out, made when first needed.
    """

    root: Path
    aside: Path
    _seen: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    """Settings as they were left: nothing to be done while they stay so."""

    def __call__(self, entry: Path, protected: Iterable[Path]) -> list[str]:
        """Make harmless what `entry` is or leads to: a `.git`, or a repository without a checkout.

        Args:
            entry: lies in the workspace.
            protected: git folders that commands could not write.

        Returns:
            What was taken out, one sentence for each file.
        """
        folders = git_folders(entry.parent) if entry.name == ".git" else GitFolders(own=entry, common=entry)
        if folders is None:
            return []
        protected = frozenset(protected)
        notes: list[str] = []
        for folder in dict.fromkeys((folders.own, folders.common)):
            if folder not in protected and self._is_writable(folder, protected):
                for closed in (folder, folder / "hooks"):
                    open_to_owner(closed)
                notes += self._hooks(folder)
                for name in ("config", "config.worktree"):
                    notes += self._settings(folder / name)
        return notes

    def _is_writable(self, folder: Path, protected: Iterable[Path]) -> bool:
        """Whether commands could have written there."""
        return any(folder.is_relative_to(place) for place in (self.root, *protected))

    def _hooks(self, folder: Path) -> Iterator[str]:
        hooks = folder / "hooks"
        if hooks.is_symlink() or (os.path.lexists(hooks) and not is_folder(hooks)):
            yield self._put_aside(hooks, "it is a link" if hooks.is_symlink() else "it is no folder")
            return
        with suppress(OSError):
            for hook in sorted(hooks.iterdir()):
                if hook.suffix != ".sample":
                    yield self._put_aside(hook, "git would run it")

    def _settings(self, file: Path) -> Iterator[str]:
        try:
            status = file.lstat()
        except OSError:
            return
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if self._seen.get(file) == state:
            return
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            yield self._put_aside(file, "git would obey it, and it is no small file")
            self._write(file, _FRESH)
            return
        settings = _read(file, self.root)
        if settings is None:
            yield self._put_aside(file, "git cannot read it")
            self._write(file, _FRESH)
            return
        kept = [(name, value) for name, value in settings if self._is_harmless(name, value, file.parent)]
        if kept != settings:
            dropped = dict.fromkeys(name for name, value in settings if (name, value) not in kept)
            told = ", ".join(list(dropped)[:_NAMES_TOLD]) + (", ..." if len(dropped) > _NAMES_TOLD else "")
            yield self._put_aside(
                file, f"git would obey what may start programs in it ({told}); the rest was kept"
            )
            self._write(file, "".join(_lines(kept)))
        with suppress(OSError):
            status = file.lstat()
            self._seen[file] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def _is_harmless(self, name: str, value: str | None, folder: Path) -> bool:
        # Section and key come in lower case, what stands between them as it is.
        if _HARMLESS.fullmatch(name):
            return True
        if _ADDRESSES.fullmatch(name):
            return value is not None and not _HELPER.match(value)
        if name == "core.worktree" and value is not None:
            return real_path(Path(folder, value)).is_relative_to(self.root)
        return False

    def _put_aside(self, path: Path, why: str) -> str:
        name = os.path.relpath(path, self.root)
        place = self.aside / f"{secrets.token_hex(4)}-{path.name}"
        try:
            self.aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.is_symlink() or stat.S_ISREG(path.lstat().st_mode) or is_folder(path):
                shutil.move(path, place)
            else:
                path.unlink()
        except OSError as fault:
            return f"{name} is dangerous, since {why}, and cannot be put aside: {fault.strerror}"
        return f"{name} was made by a command and put aside, since {why}: it is {place} now"

    def _write(self, file: Path, text: str) -> None:
        with suppress(OSError), file.open("x", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)


def _read(file: Path, root: Path) -> list[tuple[str, str | None]] | None:
    """The settings as git itself reads them, included files left out; None if it cannot."""
    arguments = ["config", "--file", str(file), "--no-includes", "--null", "--list"]
    try:
        output = find_git(process_environment(), outside=root).run(arguments, cwd=Path("/"))
    except WorkspaceError:
        return None
    records = [os.fsdecode(record).partition("\n") for record in output.split(b"\0")[:-1]]
    return [(name, value if newline else None) for name, newline, value in records]


def _lines(settings: Iterable[tuple[str, str | None]]) -> Iterator[str]:
    for name, value in settings:
        section, _, rest = name.partition(".")
        inner, dot, key = rest.rpartition(".")
        quoted = inner.replace("\\", "\\\\").replace('"', '\\"')
        yield f'[{section} "{quoted}"]\n' if dot else f"[{section}]\n"
        yield f"\t{key}\n" if value is None else f"\t{key} = {_quoted(value)}\n"


def _quoted(value: str) -> str:
    for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\b", "\\b")):
        value = value.replace(plain, escaped)
    return f'"{value}"'
