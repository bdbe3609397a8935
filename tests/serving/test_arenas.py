from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

# What glibc says of its heaps while four threads hold memory at once.
PROGRAM = """
import ctypes, sys, threading
from serving.arenas import share_arenas

if sys.argv[1] == "shared":
    share_arenas()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
all_hold, over = threading.Barrier(5), threading.Event()

def hold():
    held = [bytes(4096) for _ in range(100)]
    all_hold.wait()
    over.wait()

threads = [threading.Thread(target=hold) for _ in range(4)]
for thread in threads:
    thread.start()
all_hold.wait()
file = ctypes.c_void_p(libc.fopen(sys.argv[2].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
over.set()
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other heaps")
def test_threads_allocate_from_one_heap_where_they_are_told_to(tmp_path: Path) -> None:
    heaps = {}
    for how in ("shared", "as usual"):
        told = tmp_path / how
        subprocess.run([sys.executable, "-c", PROGRAM, how, str(told)], check=True, timeout=60)
        heaps[how] = told.read_text(encoding="ascii").count("<heap nr=")
    assert heaps["shared"] == 1
    assert heaps["as usual"] > 1
