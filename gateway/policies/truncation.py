"""Whether a policy file was cut off. A policy that begins with `---` says so itself; of others this can be told."""

from __future__ import annotations

from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loaded import LoadedPolicy

# What a document loses when it is cut off before them, in its order. Each of them restricts, or guards what does.
_GUARDS = ("uninspected", "findings", "answers", "constraints", "invariants", "tests")
_HOW = "; if it is meant so, begin the file with `---` and end it with `...`"


def refuse_cut_off(before: LoadedPolicy | None, after: LoadedPolicy, *, looser: bool) -> None:
    """Return unless a policy looks like the one before it with its end missing.

    Raises:
        PolicyError: It does.
    """
    text = after.source.text
    if before is None or after.source.bracketed:
        return
    last = text.count("\n") + 1
    if text.strip() != before.source.text.strip() and before.source.text.startswith(text.rstrip()):
        raise PolicyError(after.origin, last, 1, f"it is the policy in force with its end cut off{_HOW}")
    lost = [section for section in _GUARDS if section in before.source.value and section not in after.source.value]
    if looser and lost:
        sections = ", ".join(f"`{section}`" for section in lost)
        message = f"it is looser than the policy in force and lacks its {sections}, so it may have been cut off{_HOW}"
        raise PolicyError(after.origin, last, 1, message)
