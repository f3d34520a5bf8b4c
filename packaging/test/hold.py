"""Stops one thread of another program, like a disk that does not answer, until the program is killed. All other threads continue.

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
# Waits until the program is gone. A process stays until its tracer has collected the exit of the thread.
while True:
    _, status = os.waitpid(thread, WAIT_FOR_ANY_THREAD)
    if os.WIFEXITED(status) or os.WIFSIGNALED(status):
        break
