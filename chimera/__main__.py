"""`chimera` and `python -m chimera`: the last line of defence. Whatever goes wrong ends as a message and an exit code."""

import os
import sys


def main() -> int:
    """Run the command line with the arguments of this process and return its exit code."""
    _fill_standard_streams()
    if sys.argv[1:] == ["--version"]:
        from chimera import __version__

        print(f"chimera {__version__}")  # noqa: T201  (before anything slow is imported)
        return 0
    from chimera.cli.entry import run_command_line

    return run_command_line(sys.argv[1:])


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
    # `python -m` puts the current directory first on the import path; the repository there is not to be imported.
    if not sys.flags.safe_path and len(sys.path) > 1:
        del sys.path[0]
    sys.exit(main())
