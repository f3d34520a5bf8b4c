"""Holds one thread of another program, as a disk that does not answer would, until it is killed. All other threads go on.

usage: hold.py THREAD
"""

import ctypes
import os
import sys

PTRACE_ATTACH = 16
WAIT_FOR_ANY_THREAD = 0x40000000

thread = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
if libc.ptrace(PTRACE_ATTACH, thread, None, None) != 0:
    sys.exit(f"thread {thread}: {os.strerror(ctypes.get_errno())}")
os.waitpid(thread, WAIT_FOR_ANY_THREAD)
print("held", flush=True)
# Until it is no more: a program that has ended stays until whoever holds a thread of it has taken notice.
while True:
    _, status = os.waitpid(thread, WAIT_FOR_ANY_THREAD)
    if os.WIFEXITED(status) or os.WIFSIGNALED(status):
        break
