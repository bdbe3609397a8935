"""Which instructions this CPU multiplies small integers with: the speed of a quantized model hangs on them.

Where an Arm core has no dot product, ONNX Runtime ignores `accuracy_level=4` of a 4-bit graph without a word.
"""

from __future__ import annotations

import platform
from pathlib import Path

# By the names that Linux gives them in /proc/cpuinfo.
_DOT_PRODUCTS = {
    "amx_int8": "AMX",
    "avx512_vnni": "AVX-512 VNNI",
    "avx_vnni": "AVX-VNNI",
    "i8mm": "NEON i8mm",
    "asimddp": "NEON dot product",
}
_VECTORS = {"avx512f": "AVX-512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}


def dot_products(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[str, ...] | None:
    """Return the dot products of integers that this CPU has, widest first; `None` where nobody tells."""
    flags = _flags(cpuinfo)
    return None if flags is None else tuple(told for flag, told in _DOT_PRODUCTS.items() if flag in flags)


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Say what this CPU has, for a person."""
    found = dot_products(cpuinfo)
    if found is None:
        return f"{platform.machine()}; the system does not tell what it can multiply"
    flags = _flags(cpuinfo) or frozenset()
    vectors = next((told for flag, told in _VECTORS.items() if flag in flags), "no vectors")
    return f"{platform.machine()}, {vectors}, {', '.join(found) or 'no dot product of integers'}"


def _flags(cpuinfo: Path) -> frozenset[str] | None:
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in {"flags", "Features"}:
            return frozenset(value.split())
    return None
