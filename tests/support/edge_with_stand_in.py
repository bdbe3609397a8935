"""The edge runtime as a process, with providers beside the real ones that can be made to fail."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from edge_runtime.__main__ import main
from tests.support.faulty_provider import COMMAND, WITH_STAND_INS

if __name__ == "__main__":
    sys.exit(main(WITH_STAND_INS, COMMAND))
