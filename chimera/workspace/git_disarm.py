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
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field

from chimera.config import process_environment
from chimera.errors import WorkspaceError
from chimera.workspace.files import is_folder, open_to_owner, real_path
from chimera.workspace.git_folders import folders_of
from chimera.workspace.git_links import strange_entries
from chimera.workspace.git_program import find_git

_MOST_BYTES = 1 << 20
# What lies on another disk is copied, and a command may have made it as large as it can.
_MOST_COPIED_BYTES = 16 << 20
_NAMES_TOLD = 5
_NOTES_TOLD = 20
# Git is asked for each file of settings, which takes some milliseconds.
_MOST_READ = 200
# Neither starts a program nor reads another file, whatever its value. Compiled when first needed, and so is the next.
_HARMLESS = (
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
_ADDRESSES = r"(remote\.[^\n]*\.(url|pushurl)|branch\.[^\n]*\.(remote|pushremote)|submodule\.[^\n]*\.url)"
_HELPER = re.compile(r"\s*(-|[A-Za-z0-9+.-]*::)")
_FRESH = "[core]\n\trepositoryformatversion = 0\n"


class Disarming(Struct):
    """Makes the repositories of one workspace harmless that commands made.

    Args:
        root: the workspace, a real path.
        aside: folder for what is taken out, made when first needed.
    """

    root: Path
    aside: Path
    _seen: dict[Path, tuple[int, ...]] = field(default_factory=dict)
    """Settings as they were left: nothing to be done while they stay so."""
    _unread: int = _MOST_READ
    """Files of settings that may still be read this time."""

    def __call__(self, entries: Collection[Path], protected: Collection[Path]) -> list[str]:
        """Make harmless what these are or lead to: each a `.git`, or a repository without a checkout.

        Of very many with settings that changed, those beyond the first lose them unread.

        Args:
            entries: lie in the workspace.
            protected: git folders that commands could not write.

        Returns:
            What was taken out, one sentence for each file, of very many only for the first.
        """
        protected = frozenset(protected)
        self._unread = _MOST_READ
        done: set[Path] = set()
        notes: list[str] = []
        for entry in entries:
            folders = folders_of(entry)
            for folder in (folders.own, folders.common) if folders else ():
                if folder not in done and folder not in protected and self._is_writable(folder, protected):
                    done.add(folder)
                    notes += self._disarm(folder)
        if len(notes) > _NOTES_TOLD:
            more = f"{len(notes) - _NOTES_TOLD:,} more files of repositories that a command made were treated likewise"
            return [*notes[:_NOTES_TOLD], f"{more}: what was put aside is in {self.aside}"]
        return notes

    def _disarm(self, folder: Path) -> Iterator[str]:
        for closed in (folder, folder / "hooks"):
            open_to_owner(closed)
        yield from self._hooks(folder)
        for name in ("config", "config.worktree"):
            yield from self._settings(folder / name)
        for path, why in strange_entries(folder).items():
            yield self.set_aside(path, why)

    def _is_writable(self, folder: Path, protected: Collection[Path]) -> bool:
        """Whether commands could have written there."""
        return any(folder.is_relative_to(place) for place in (self.root, *protected))

    def _hooks(self, folder: Path) -> Iterator[str]:
        hooks = folder / "hooks"
        if hooks.is_symlink() or (os.path.lexists(hooks) and not is_folder(hooks)):
            yield self.set_aside(hooks, "it is a link" if hooks.is_symlink() else "it is no folder")
            return
        with suppress(OSError):
            for hook in sorted(hooks.iterdir()):
                if hook.suffix != ".sample":
                    yield self.set_aside(hook, "git would run it")

    def _settings(self, file: Path) -> Iterator[str]:
        try:
            status = file.lstat()
        except OSError:
            return
        state = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        if self._seen.get(file) == state:
            return
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            yield self.set_aside(file, "git would obey it, and it is no small file")
            self._write(file, _FRESH)
            return
        if self._unread == 0:
            yield self.set_aside(file, "there are too many to look into each")
            self._write(file, _FRESH)
            return
        self._unread -= 1
        settings = _read(file, self.root)
        if settings is None:
            yield self.set_aside(file, "git cannot read it")
            self._write(file, _FRESH)
            return
        kept = [(name, value) for name, value in settings if self._is_harmless(name, value, file.parent)]
        if kept != settings:
            dropped = dict.fromkeys(name for name, value in settings if (name, value) not in kept)
            told = ", ".join(list(dropped)[:_NAMES_TOLD]) + (", ..." if len(dropped) > _NAMES_TOLD else "")
            yield self.set_aside(
                file, f"git would obey what may start programs in it ({told}); the rest was kept"
            )
            self._write(file, "".join(_lines(kept)))
        with suppress(OSError):
            status = file.lstat()
            self._seen[file] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def _is_harmless(self, name: str, value: str | None, folder: Path) -> bool:
        # Section and key come in lower case, what stands between them as it is.
        if re.fullmatch(_HARMLESS, name):
            return True
        if re.fullmatch(_ADDRESSES, name):
            return value is not None and not _HELPER.match(value)
        if name == "core.worktree" and value is not None:
            return real_path(Path(folder, value)).is_relative_to(self.root)
        return False

    def set_aside(self, path: Path, why: str) -> str:
        """Take a file, link or folder out of a git folder; says where it is now.

        What cannot be moved to `aside`, since a disk is full or it is very large, stays where it is under a name that
        means nothing to git.
        """
        name = os.path.relpath(path, self.root)
        place = self.aside / f"{secrets.token_hex(4)}-{path.name}"
        try:
            if not (path.is_symlink() or is_folder(path) or stat.S_ISREG(path.lstat().st_mode)):
                path.unlink()
                return f"{name} was made by a command and removed, since {why}"
            with suppress(OSError):
                self.aside.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _moved(path, place):
                place = path.with_name(f"{path.name}.{secrets.token_hex(4)}.sample")
                _disabled(path, place)
        except OSError as fault:
            return f"{name} is dangerous, since {why}, and cannot be put aside: {fault.strerror}"
        if not os.path.lexists(place):
            return f"{name} was made by a command and removed, since {why}"
        return f"{name} was made by a command and put aside, since {why}: it is {place} now"

    def _write(self, file: Path, text: str) -> None:
        with suppress(OSError), file.open("x", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)


def _moved(path: Path, place: Path) -> bool:
    """Whether it could be moved there, copied if need be and not too large."""
    try:
        path.rename(place)
    except OSError:
        if not path.is_symlink() and (is_folder(path) or path.lstat().st_size > _MOST_COPIED_BYTES):
            return False
        try:
            shutil.move(path, place)
        except OSError:
            with suppress(OSError):
                place.unlink()
            return False
    return True


def _disabled(path: Path, place: Path) -> None:
    """Give it another name in its folder; a link goes, since git may write through it whatever its name."""
    if path.is_symlink():
        path.unlink()
        return
    try:
        path.rename(place)
    except OSError:
        if is_folder(path):
            raise
        path.unlink()


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
