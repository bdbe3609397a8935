"""How often a server looks for reference cycles.

A request's objects are nearly all freed by their counts, so each search finds little and walks over everything that
the program holds: with the interpreter's own thresholds that is a tenth of a gateway's time.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

# Young objects before a search; some hundred requests' worth, which is a few megabytes at most.
_YOUNG = 50_000
_MIDDLE = 20
_OLD = 100


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Search seldom until the block ends, and never through what was there before it: that lives as long as we do."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
