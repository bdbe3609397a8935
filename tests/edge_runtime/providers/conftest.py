from __future__ import annotations

from pathlib import Path

import pytest

from tests.edge_runtime.providers.site import Site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)
