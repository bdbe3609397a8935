from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.installation import Installation, installed


@pytest.fixture(scope="session")
def installation(tmp_path_factory: pytest.TempPathFactory, models_dir: Path) -> Iterator[Installation]:
    """One running installation for all tests that leave it as they found it."""
    with installed(tmp_path_factory.mktemp("tg") / "state", models_dir) as found:
        yield found
