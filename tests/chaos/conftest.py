from __future__ import annotations

from tests.gateway.conftest import house

__all__ = ["house"]
