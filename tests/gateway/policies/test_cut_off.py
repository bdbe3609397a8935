"""No beginning of a policy file is looser than the whole of it once it is reloaded."""

from __future__ import annotations

import time
from importlib import resources

from hypothesis import given
from hypothesis import strategies as st

from gateway.policies.document import Document
from gateway.policies.examine import Demands, examine
from gateway.policies.looser import loosenings
from gateway.policies.truncation import refuse_cut_off
from routing_policies.lab.prover import Prover
from routing_policies.policy.errors import PolicyError
from routing_policies.policy.loaded import LoadedPolicy
from routing_policies.policy.loader import builtin_names, load_text

PROVER = Prover()


def taken(text: str, before: LoadedPolicy | None, targets: frozenset[str]) -> LoadedPolicy:
    """What a reload of that text puts in force."""
    loaded = examine(Document.of("p", text.encode()), Demands(targets), PROVER, time.time()).loaded
    refuse_cut_off(before, loaded, looser=bool(loosenings(before, loaded)))
    return loaded


def shipped(name: str) -> str:
    return (resources.files("routing_policies.builtin") / f"{name}.yaml").read_text(encoding="utf-8")


@given(data=st.data())
def test_no_beginning_of_a_shipped_policy_is_looser_than_the_whole(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(builtin_names()))
    marked = data.draw(st.booleans(), "says where it begins and ends")
    text = shipped(name) if marked else shipped(name).replace("---\n", "", 1).replace("\n...\n", "\n")
    lines = [index + 1 for index, character in enumerate(text) if character == "\n"]
    end = data.draw(st.one_of(st.sampled_from(lines), st.integers(0, len(text))))
    all_of_it = load_text(text, name, PROVER)

    try:
        found = taken(text[:end], all_of_it, frozenset(all_of_it.policy.targets))
    except PolicyError:
        return
    assert not loosenings(all_of_it, found)
