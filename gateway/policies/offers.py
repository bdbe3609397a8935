"""What is asked of a roll-out, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gateway.policies.document import Document
from gateway.policies.holder import InForce, Version
from gateway.policies.looser import Loosening

Placing = Callable[[InForce, Version], InForce]
"""What becomes of what is in force when a version is admitted."""

Place = Literal["in_force", "canary", "shadow"]
"""As what a version can be in force."""


@dataclass(frozen=True, slots=True)
class By:
    """Who does something, and why they say they do.

    Attributes:
        who: A caller's id, or `file`, `signal`, `start`.
    """

    who: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """A document, and what is to become of it.

    Attributes:
        signed: Whether it must bear the signatures that this installation asks for.
        share: For whom a canary is to decide, in words: whoever signs it signs that.
        fresh: Whether it comes from outside to be acted on, and not from the versions that were kept: then a bundle
            must be newer than all before it, and no text may look cut off.
    """

    document: Document
    by: By
    place: Place
    placing: Placing
    signed: bool = True
    fresh: bool = True
    share: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a policy that was offered.

    Attributes:
        number: Of its version.
        looser: In what it is looser than the stable one before.
        warnings: Of rules that cannot matter, and of targets that it says nothing of.
        signed_by: Who has signed what waits.
        missing: How many more must.
    """

    became: Literal["in_force", "canary", "shadow", "unchanged", "held"]
    number: int
    looser: tuple[Loosening, ...] = ()
    warnings: tuple[str, ...] = ()
    signed_by: tuple[str, ...] = ()
    missing: int = 0
