"""A supervisor in a process of its own, over small Python programs: `supervised.py '[{name: code}, {patience}]'`."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from gateway.child import ChildSpec
from gateway.supervise import Patience, Supervisor


def main() -> int:
    programs, patience = json.loads(sys.argv[1])
    children = [
        ChildSpec(name, (sys.executable, "-u", "-c", code), dict(os.environ)) for name, code in programs.items()
    ]

    def say(name: str, line: str) -> None:
        sys.stdout.write(f"{name}: {line}\n")
        sys.stdout.flush()

    async def supervise() -> int:
        return await Supervisor(children, say, patience=Patience(**patience)).run()

    return asyncio.run(supervise())


if __name__ == "__main__":
    sys.exit(main())
