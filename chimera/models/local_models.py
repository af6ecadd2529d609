"""Model files on this machine by a short name: added by path, or fetched from a short list and checked by hash."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from chimera.errors import ConfigError
from chimera.extras import install_command
from chimera.models.llama_server import check_model_file

LOCAL = "local:"
"""Before the name or the path of a model on this machine."""
# Beside the file itself: what a download needs for its parts.
_SPARE_BYTES = 200_000_000
_CHUNK_BYTES = 1 << 22
_ENDING = ".gguf"


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model file that can be fetched. Its hash is that of its publisher's own file."""

    repository: str
    """On the hub that huggingface_hub speaks to."""
    file: str
    size: int
    """Bytes."""
    sha256: str
    licence: str
    about: str


KNOWN_MODELS: Mapping[str, KnownModel] = {
    "qwen2.5-coder-1.5b": KnownModel(
        repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        about="mends one-line bugs; needs 2 GiB of memory",
    ),
    "qwen2.5-coder-0.5b": KnownModel(
        repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        about="follows the form of a call, solves nothing: for trying things out",
    ),
}


def _is_path(text: str) -> bool:
    return text.lower().endswith(_ENDING)


def _taken(name: str, path: Path) -> ConfigError:
    quoted = shlex.quote(name)
    return ConfigError(
        f"{name!r} is {str(path)!r} already: choose another --name, or chimera local rm {quoted}"
    )


def writes_calls(file: Path) -> bool:
    """Whether a file is a model of the list: its template takes tools, but it writes calls as text, so never makes one."""
    return file.name in {known.file for known in KNOWN_MODELS.values()}


class LocalModels(Struct, frozen=True):
    """The names that were given to model files. Kept in one JSON file in the state directory."""

    state_dir: Path

    def listed(self) -> dict[str, Path]:
        """Name to file, in alphabetical order; files that are gone are listed, too."""
        try:
            values = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as fault:
            raise ConfigError(f"{str(self._file)!r} cannot be read ({fault}): mend or remove it") from fault
        if not (isinstance(values, dict) and all(isinstance(path, str) for path in values.values())):
            raise ConfigError(f"{str(self._file)!r} is no table of names and paths: mend or remove it")
        return {name: Path(values[name]) for name in sorted(values)}

    def add(self, path: Path, name: str | None = None) -> str:
        """Give a model file a name, by default its own without the ending.

        Raises:
            ConfigError: it is no GGUF file, or the name belongs to another file.
        """
        path = path.expanduser().absolute()
        check_model_file(path)
        name = path.stem if name is None else name
        plain = name.strip() and name.isprintable() and not name.startswith("-")
        if not plain or "/" in name or _is_path(name):
            raise ConfigError(
                f"{name!r} is no name for a model, which is printable, without / in it, - before it and {_ENDING} "
                "behind it: give another with --name"
            )
        models = self.listed()
        if models.get(name, path) != path:
            raise _taken(name, models[name])
        self._save({**models, name: path})
        return name

    def remove(self, name: str) -> Path:
        """Forget a name. The file stays where it is.

        Raises:
            ConfigError: there is no such name.
        """
        models = self.listed()
        if name not in models:
            raise ConfigError(f"there is no local model {name!r}. {self._names(models)}")
        path = models.pop(name)
        self._save(models)
        return path

    def find(self, text: str) -> Path:
        """The file behind what follows `local:` in a model's name: a path ending in .gguf, or a name.

        Raises:
            ConfigError: there is none. The message says what to type.
        """
        if _is_path(text):
            return Path(text).expanduser().absolute()
        models = self.listed()
        if text in models:
            return models[text]
        if text in KNOWN_MODELS:
            raise ConfigError(f"the model {text!r} is not on this machine yet: chimera local pull {text}")
        raise ConfigError(f"there is no local model {text!r}. {self._names(models)}")

    def pull(self, name: str, *, say: Callable[[str], None] = lambda _: None) -> Path:
        """Fetch a known model into the user's cache, check its hash, and give it its name. An earlier part is taken up.

        Args:
            name: of `KNOWN_MODELS`.
            say: told what is being done.

        Raises:
            ConfigError: no such model, no room, no huggingface_hub, a failed download, or a wrong hash.
        """
        known = KNOWN_MODELS.get(name)
        if known is None:
            raise ConfigError(
                f"{name!r} is not one of: {', '.join(KNOWN_MODELS)}. For a file you have: chimera local add"
            )
        there = self.listed().get(name)
        if there is not None and there.name != known.file:
            raise _taken(name, there)
        path = fetched(known, say=say)
        self._save({**self.listed(), name: path})
        return path

    @property
    def _file(self) -> Path:
        return self.state_dir / "models.json"

    @staticmethod
    def _names(models: Mapping[str, Path]) -> str:
        there = f"There are: {', '.join(models)}." if models else "None was added yet."
        return f"{there} chimera local add PATH.gguf adds one, chimera local pull NAME fetches one: {', '.join(KNOWN_MODELS)}"

    def _save(self, models: Mapping[str, Path]) -> None:
        temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary.write_text(json.dumps({name: str(path) for name, path in models.items()}, indent=1))
            temporary.replace(self._file)
        except OSError as fault:
            raise ConfigError(f"{str(self._file)!r} cannot be written: {fault}") from fault


def fetched(
    known: KnownModel,
    *,
    cache: Path | None = None,
    endpoint: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Path:
    """The file of a known model, its hash checked: one that huggingface_hub has, or one of our own beside its cache.

    What an earlier attempt has left is taken up. `hf_hub_download` would throw it away.

    Raises:
        ConfigError: as `LocalModels.pull`.
    """
    try:
        from huggingface_hub import constants, errors, hf_hub_url, try_to_load_from_cache
        from huggingface_hub.file_download import http_get
    except ImportError as fault:
        raise ConfigError(f"fetching models needs huggingface_hub: {install_command('local')}") from fault
    broken: type[Exception] = vars(errors)["HTTPError"]  # of the HTTP library that it uses, whichever that is
    folder = cache or Path(constants.HF_HOME) / "chimera"
    path, theirs = folder / known.file, try_to_load_from_cache(known.repository, known.file)
    for there in (path, theirs):
        if isinstance(there, str | Path) and Path(there).is_file() and _sha256(Path(there)) == known.sha256:
            return Path(there)
    part = path.with_name(f"{path.name}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(part) as file:
            if file.tell() > known.size:
                file.seek(0)
                file.truncate()
            _check_room(folder, known.size - file.tell())
            say(
                f"Fetching {known.file} ({known.size / 1e9:.2f} GB, {known.licence}) from {known.repository} into {folder}"
            )
            if file.tell() < known.size:
                url = hf_hub_url(known.repository, known.file, endpoint=endpoint)
                http_get(url, file, resume_size=file.tell(), expected_size=known.size)
            say("Checking its hash")
            file.flush()
            if (found := _sha256(part)) != known.sha256:
                part.unlink()
                raise ConfigError(
                    f"{known.file} is not what it should be: SHA-256 {found} instead of {known.sha256}. It was removed"
                )
            part.replace(path)
    except (broken, OSError) as fault:
        what = next(iter(str(fault).splitlines()), type(fault).__name__)
        raise ConfigError(
            f"{known.file} could not be fetched: {what}. Try again: what has come is kept"
        ) from fault
    return path


@contextmanager
def _alone(part: Path) -> Iterator[BinaryIO]:
    """The file for what comes, open at its end, and nobody else's until it is closed.

    Raises:
        ConfigError: another process is at it.
    """
    with part.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            raise ConfigError(f"another process is fetching {str(part)!r}: wait for it") from fault
        yield file


def _check_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + _SPARE_BYTES:
        raise ConfigError(
            f"{free / 1e9:.1f} GB are free at {str(folder)!r} and {(size + _SPARE_BYTES) / 1e9:.1f} GB are needed: "
            "make room, or set HF_HOME to another place"
        )


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
