"""Runs the text of a program that can use its own folder, read what Python is made of, and open nothing else.

So a product cannot look for the tests that call it, nor reach into their process or their report. It takes Linux 5.13
(Landlock); elsewhere the program runs as it is. Arguments: the folder, the text of the program, whatever the program gets.
"""

import ctypes
import os
import struct
import sys
from pathlib import Path

# Of linux/landlock.h: system calls, and the rights of the first version of the interface.
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
READ, WRITE_FILE, ALL = 0b1101, 0b10, (1 << 13) - 1
NO_NEW_PRIVILEGES = 38


def keep_to(folder: str) -> None:
    """Give up, for this process and all that it starts, to open anything outside these places."""
    libc = ctypes.CDLL(None, use_errno=True)
    asked = struct.pack("Q", ALL)
    ruleset = libc.syscall(CREATE_RULESET, asked, ctypes.c_size_t(len(asked)), 0)
    if ruleset < 0:
        return
    places = dict.fromkeys(("/usr", "/lib", "/lib64", "/bin", "/etc", sys.prefix, sys.base_prefix), READ)
    for place, rights in {**places, folder: ALL, os.devnull: READ & ~8 | WRITE_FILE}.items():
        if Path(place).exists():
            at = os.open(place, os.O_PATH)
            libc.syscall(ADD_RULE, ruleset, 1, struct.pack("=Qi", rights, at), 0)
            os.close(at)
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "the product cannot be kept apart")
    os.close(ruleset)


_, own, program, *rest = sys.argv
if sys.platform == "linux":
    keep_to(own)
os.execv(sys.executable, [sys.executable, "-s", "-P", "-B", "-c", program, own, *rest])
