"""What a model folder says about talking to its model: tokenizer, chat template, special and stop tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from serving.start import StartRefused

SPECIAL_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token")


class ModelFolderUnusable(StartRefused):
    """A file that the server needs is missing or unreadable. The message names it."""


def read_bytes(folder: Path, name: str) -> bytes:
    """Read a file that must be there.

    Raises:
        ModelFolderUnusable: It is not.
    """
    try:
        return (folder / name).read_bytes()
    except OSError as exc:
        raise ModelFolderUnusable(f"{folder / name} cannot be read: {exc.strerror}.") from None


def read_config(folder: Path, name: str) -> Mapping[str, Any]:
    """Read a JSON object; a file that is not there counts as an empty one.

    Raises:
        ModelFolderUnusable: It is there and no JSON object.
    """
    if not (folder / name).exists():
        return {}
    try:
        found = json.loads(read_bytes(folder, name))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ModelFolderUnusable(f"{folder / name} is not a JSON object.")
    return found


def chat_template(folder: Path) -> str:
    """Return the Jinja source of the chat template, from its own file or from `tokenizer_config.json`.

    Raises:
        ModelFolderUnusable: There is none, or it is no text.
    """
    if (folder / "chat_template.jinja").exists():
        try:
            return read_bytes(folder, "chat_template.jinja").decode()
        except UnicodeDecodeError:
            raise ModelFolderUnusable(f"{folder / 'chat_template.jinja'} is not UTF-8.") from None
    found = read_config(folder, "tokenizer_config.json").get("chat_template")
    if isinstance(found, list):  # several under names: the one for plain chat is called `default`
        found = next((entry.get("template") for entry in found if entry.get("name") == "default"), None)
    if not isinstance(found, str):
        raise ModelFolderUnusable(
            f"{folder} has no chat template: neither chat_template.jinja nor `chat_template` in tokenizer_config.json."
        )
    return found


def special_tokens(folder: Path) -> dict[str, str]:
    """Return the special tokens that templates refer to by name, such as `bos_token`."""
    config = read_config(folder, "tokenizer_config.json")
    texts = {name: _token_text(config.get(name)) for name in SPECIAL_TOKENS}
    return {name: text for name, text in texts.items() if text is not None}


def end_token_ids(folder: Path) -> frozenset[int]:
    """Return the ids that `generation_config.json` and `genai_config.json` say end an answer."""
    return frozenset(
        [
            *_ids(read_config(folder, "generation_config.json").get("eos_token_id")),
            *_ids(read_config(folder, "genai_config.json").get("model", {}).get("eos_token_id")),
        ]
    )


def _token_text(value: Any) -> str | None:
    """Read a token that older files write as an object."""
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else None


def _ids(value: Any) -> Iterator[int]:
    for id_ in value if isinstance(value, list) else [value]:
        if isinstance(id_, int) and not isinstance(id_, bool):
            yield id_
