from __future__ import annotations

import itertools
from pathlib import Path
from typing import Literal

import pytest

from gateway.cli.runtimes import cloud_argv, edge_argv
from gateway.settings import ModelSettings, Settings


@pytest.mark.parametrize(("signatures", "asked"), [("required", True), ("dev", False)])
def test_runtimes_are_told_whose_models_are_trusted_unless_anything_may_run(
    tmp_path: Path, signatures: Literal["required", "dev"], asked: bool
) -> None:
    settings = Settings(state_dir=tmp_path, models=ModelSettings(signatures=signatures))
    for argv in (edge_argv(settings), cloud_argv(settings, 8090)):
        told = dict(itertools.pairwise(argv)).get("--trusted-keys")
        assert told == (str(tmp_path / "keys" / "models") if asked else None)
