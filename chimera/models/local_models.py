"""Model files on this machine by a short name: added by path, or fetched from a short list and checked by hash."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chimera.errors import ConfigError
from chimera.extras import install_command
from chimera.models.llama_server import check_model_file

LOCAL = "local:"
"""Before the name or the path of a model on this machine."""
# Beside the file itself: what a download needs for its parts.
_SPARE_BYTES = 200_000_000
_CHUNK_BYTES = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
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


def writes_calls(file: Path) -> bool:
    """Whether a file is a model of the list: its template takes tools, but it writes calls as text, so never makes one."""
    return file.name in {known.file for known in KNOWN_MODELS.values()}


@dataclass(frozen=True, slots=True)
class LocalModels:
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
        name = name or path.stem
        if not name or "/" in name or name.endswith(".gguf"):
            raise ConfigError(f"{name!r} is no name for a model: it must be without / and .gguf")
        models = self.listed()
        if models.get(name, path) != path:
            raise ConfigError(
                f"{name!r} is {str(models[name])!r} already: choose another --name, or chimera local rm {name}"
            )
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
        if text.endswith(".gguf"):
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
        path = fetched(known, say=say)
        self.add(path, name)
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
    """The file of a known model in a cache, by default that of huggingface_hub, its hash checked.

    Raises:
        ConfigError: as `LocalModels.pull`.
    """
    try:
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as fault:
        raise ConfigError(f"fetching models needs huggingface_hub: {install_command('local')}") from fault
    cache = cache or Path(constants.HF_HUB_CACHE)
    _check_room(cache, known.size)
    say(
        f"Fetching {known.file} ({known.size / 1e9:.2f} GB, {known.licence}) from {known.repository} into {cache}"
    )
    try:
        path = Path(hf_hub_download(known.repository, known.file, cache_dir=cache, endpoint=endpoint))
    except (HfHubHTTPError, OSError) as fault:
        raise ConfigError(
            f"{known.file} could not be fetched: {fault}. Try again: what is there is kept"
        ) from fault
    say("Checking its hash")
    found = _sha256(path)
    if found != known.sha256:
        path.resolve().unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise ConfigError(
            f"{known.file} is not what it should be: SHA-256 {found} instead of {known.sha256}. It was removed"
        )
    return path


def _check_room(cache: Path, size: int) -> None:
    folder = next(parent for parent in (cache, *cache.parents) if parent.exists())
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
