from __future__ import annotations

from typing import Any

import pytest

from inference_protocol.conversation import Turn, conversation

PLAIN = {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello there"}]}


def test_turns_have_role_and_text_in_order() -> None:
    assert conversation(PLAIN) == (Turn("system", "Be brief."), Turn("user", "Hello there"))


@pytest.mark.parametrize(
    "resent",
    [
        {"role": "user", "content": [{"type": "text", "text": "Hello "}, {"type": "text", "text": "there"}]},
        {"role": "user", "content": "Hello there\n"},
        {"content": "Hello there", "role": "user", "name": "jane"},
        {"role": "user", "content": [{"type": "text", "text": "Hello there", "cache_control": {"type": "ephemeral"}}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Hello there"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
    ],
)
def test_what_clients_change_when_they_resend_a_message_changes_nothing(resent: dict[str, Any]) -> None:
    assert conversation({"messages": [resent]}) == (Turn("user", "Hello there"),)


def test_the_two_names_of_a_role_are_one() -> None:
    roles = [turn.role for turn in conversation({"messages": [{"role": r} for r in ("developer", "system")]})]
    assert roles == ["system", "system"]


@pytest.mark.parametrize("tree", [{}, {"messages": None}, {"messages": "x"}, {"prompt": "x"}, {"messages": [1, "x"]}])
def test_a_body_without_messages_is_no_conversation(tree: dict[str, Any]) -> None:
    assert conversation(tree) == ()
