"""What a CPU multiplies small integers with, by what Linux says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_runtime.providers.processor import dot_products, processor


@pytest.mark.parametrize(
    ("line", "wanted", "says"),
    [
        ("flags\t\t: fpu sse avx2 fma", (), "AVX2, no dot product of integers"),
        ("flags\t\t: avx2 avx512f avx512_vnni amx_int8", ("AMX", "AVX-512 VNNI"), "AVX-512, AMX, AVX-512 VNNI"),
        ("Features\t: fp asimd asimddp i8mm", ("NEON i8mm", "NEON dot product"), "NEON, NEON i8mm, NEON dot product"),
        ("Features\t: fp asimd crc32", (), "NEON, no dot product of integers"),
    ],
)
def test_dot_products_are_read_from_the_flags(tmp_path: Path, line: str, wanted: tuple[str, ...], says: str) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor : 0\n{line}\n", encoding="utf-8")
    assert dot_products(path) == wanted
    assert processor(path).endswith(says)


def test_where_nobody_tells_nothing_is_claimed(tmp_path: Path) -> None:
    assert dot_products(tmp_path / "none") is None
    assert "does not tell" in processor(tmp_path / "none")
