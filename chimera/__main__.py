"""`chimera` and `python -m chimera`: the last line of defence. Whatever goes wrong ends as a message and an exit code."""

import _signal  # type: ignore[import-not-found]
import gc
import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def program() -> "NoReturn":
    """`main`, and out of the process: what Python would still take apart, piece by piece, the kernel does at once."""
    code = main()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # nobody reads it any more, and `main` has said what there was to say of that
    os._exit(code)


def main() -> int:
    """Run the command line with the arguments of this process and return its exit code."""
    # Until there are handlers a signal waits. The module that is built in needs no time to be imported.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP))
    # What is imported stays: looking through it for garbage is a tenth of a start. The command line enables it again.
    gc.disable()
    _import_nothing_from_here()
    from chimera import interruption

    interruption.install()
    _fill_standard_streams()
    if sys.argv[1:] == ["--version"]:
        from chimera import __version__

        print(f"chimera {__version__}")  # noqa: T201  (before anything slow is imported)
        return 0
    from chimera.cli.clean_start import start_clean

    start_clean(sys.argv[1:], os.environ)  # noqa: TID251  (before anything else reads it, or takes long to import)
    from chimera.cli.entry import run_command_line

    code = run_command_line(sys.argv[1:])
    interruption.ended(code)
    return code


def _import_nothing_from_here() -> None:
    """Take the current directory off the import path: the repository there is not to be imported.

    `python -m` puts it first; `-c` and an empty part of PYTHONPATH put it somewhere.
    """
    try:
        here = os.path.realpath(os.getcwd())  # noqa: PTH109  (pathlib is not loaded yet)
    except OSError:
        here = ""
    ours = {os.path.dirname(os.__file__), *site.getsitepackages()}  # noqa: PTH120
    if here not in map(os.path.realpath, ours):
        sys.path[:] = [entry for entry in sys.path if entry and os.path.realpath(entry) != here]


def _fill_standard_streams() -> None:
    """Give closed standard streams a place, lest a file that is opened later takes theirs; never fail to encode."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
        elif mode == "w":
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    program()
