"""Gives up rights by Landlock and seccomp for good, then becomes the command: `python -I -S -c SOURCE WORD... -- COMMAND`.

Chimera has many threads, so it cannot do this between fork and exec; this program has one. It imports nothing of
chimera, since its text is handed over whole: what a command changes in an installed package never runs unconfined.

Words, in any order: `fs=`, `net=`, `scope=` the handled rights as numbers of linux/landlock.h; `write=PATH` a file or
folder that stays writable; `tmp=PATH` a folder for temporary files and caches; `limit=RESOURCE:VALUE`; `filter=HEX` a
BPF program. Any failure ends with exit code 126 and the command not run.
"""

import _ctypes
import os
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_WRITE_FILE, _TRUNCATE, _MAKE_CHAR, _MAKE_BLOCK = 1 << 1, 1 << 14, 1 << 6, 1 << 11
_PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 22, 24, 38, 47
_SECCOMP_MODE_FILTER, _CAP_AMBIENT_CLEAR_ALL = 2, 4
_CAPABILITY_VERSION_3 = 0x2008_0522
_SIGPIPE, _SIGXFSZ = 13, 25


# What stands below the module ctypes, whose import would be a third of the time that this program takes.
class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001
    _type_ = "l"


class _Function(_ctypes.CFuncPtr):
    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


_LIBRARY = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]


def main(words: list[str]) -> None:
    """Confine this process as the words say and execute what follows `--`. Does not return."""
    split = words.index("--")
    command = words[split + 1 :]
    try:
        _confine([tuple(word.split("=", 1)) for word in words[:split]])
    except (OSError, ValueError) as fault:
        sys.stderr.write(f"chimera: the command could not be confined, so it was not run: {fault}\n")
        os._exit(126)
    # Python ignores these two, and what is ignored stays so in the command.
    _call("signal", _SIGPIPE, 0)
    _call("signal", _SIGXFSZ, 0)
    try:
        os.execvp(command[0], command)  # noqa: S606  (the command is to run without a shell of ours)
    except OSError as fault:
        sys.stderr.write(f"{command[0]}: {fault.strerror}\n")
        os._exit(127)


def _confine(words: list[tuple[str, ...]]) -> None:
    masks = {name: int(value) for name, value in words if name in {"fs", "net", "scope"}}
    for name, value in words:
        if name == "limit":
            number, _, most = value.partition(":")
            _call("setrlimit", int(number), _number(int(most), 8) * 2)
        elif name == "tmp":
            os.environ["TMPDIR"] = value  # noqa: TID251  (of the command that this process becomes)
            os.environ["XDG_CACHE_HOME"] = value + "/.cache"  # noqa: TID251
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if any(masks.values()):
        writable = [value for name, value in words if name in {"write", "tmp"}]
        _landlock(masks.get("fs", 0), masks.get("net", 0), masks.get("scope", 0), writable)
    _drop_capabilities()
    for name, value in words:
        if name == "filter":
            _install(bytes.fromhex(value))


def _landlock(fs: int, net: int, scope: int, writable: list[str]) -> None:
    attributes = _number(fs, 8) + _number(net, 8) + _number(scope, 8)
    ruleset = _call("syscall", _CREATE_RULESET, attributes, len(attributes), 0)
    for path in writable:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        is_folder = os.fstat(descriptor).st_mode & 0o170000 == 0o040000
        rights = fs & (~(_MAKE_CHAR | _MAKE_BLOCK) if is_folder else _WRITE_FILE | _TRUNCATE)
        rule = _number(rights, 8) + _number(descriptor, 4)
        _call("syscall", _ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0)
        os.close(descriptor)
    _call("syscall", _RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _drop_capabilities() -> None:
    """Without these, root could undo the confinement. With no new privileges, none comes back by executing."""
    try:
        for capability in range(64):
            _call("prctl", _PR_CAPBSET_DROP, capability, 0, 0, 0)
    except OSError:
        pass  # the last one is passed, or there is no right to this: then there are none to drop
    _call("prctl", _PR_CAP_AMBIENT, _CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _call("capset", _number(_CAPABILITY_VERSION_3, 4) + bytes(4), bytes(24))


def _install(program: bytes) -> None:
    code = _call("malloc", len(program))
    _call("memcpy", code, program, len(program))
    # struct sock_fprog: a short, padding, a pointer
    header = _number(len(program) // 8, 8) + _number(code, 8)
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0)


def _number(value: int, size: int) -> bytes:
    return value.to_bytes(size, sys.byteorder)


def _call(name: str, *arguments: int | bytes) -> int:
    function = _Function(_ctypes.dlsym(_LIBRARY, name))
    result: int = function(*(_Long(a) if isinstance(a, int) else a for a in arguments))
    if result == -1:
        number = _ctypes.get_errno()
        raise OSError(number, f"{name} {arguments[0]!r}: {os.strerror(number)}")
    return result


if __name__ == "__main__":
    main(sys.argv[1:])
