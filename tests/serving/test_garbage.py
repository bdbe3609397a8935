from __future__ import annotations

import gc

from serving.garbage import rare_collections


def test_a_server_searches_for_cycles_seldom_and_never_through_what_it_started_with() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_threshold()[0] > 10 * before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
