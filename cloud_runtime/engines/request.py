"""One request on its way through an engine that answers one at a time."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from runtime_server.engine import GenerationJob
from runtime_server.moments import Moments


@dataclass(eq=False, slots=True)
class Request:
    """What the event loop and the worker share of a request. Each field but the event is written by one of them.

    Attributes:
        cancelled: Set by the event loop, looked at by the worker between steps.
        unread: Prompt tokens that the model has not read yet.
    """

    job: GenerationJob
    moments: Moments
    cancelled: threading.Event = field(default_factory=threading.Event)
    unread: int = field(init=False)

    def __post_init__(self) -> None:
        self.unread = len(self.job.prompt)
