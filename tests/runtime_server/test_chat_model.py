from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runtime_server.chat_model import load_chat_model
from runtime_server.model_folder import ModelFolderUnusable


@pytest.fixture
def folder(model_dir: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model_dir, tmp_path / "model")


def write(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(json.dumps(content), encoding="utf-8")


def test_stop_tokens_come_from_all_places_that_name_them(folder: Path) -> None:
    assert load_chat_model(folder, "m").stop_tokens == {2}
    write(folder, "generation_config.json", {"eos_token_id": [0, 2]})
    write(folder, "genai_config.json", {"model": {"eos_token_id": 7}})
    assert load_chat_model(folder, "m").stop_tokens == {0, 2, 7}
    write(folder, "tokenizer_config.json", {"eos_token": {"content": "<|im_start|>"}})
    assert load_chat_model(folder, "m").stop_tokens == {0, 1, 2, 7}


def test_a_model_without_a_stop_token_is_refused(folder: Path) -> None:
    write(folder, "tokenizer_config.json", {})
    with pytest.raises(ModelFolderUnusable, match="ends an answer"):
        load_chat_model(folder, "m")


def test_the_template_may_stand_in_the_tokenizers_configuration(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(ModelFolderUnusable, match="no chat template"):
        load_chat_model(folder, "m")
    several = [{"name": "rag", "template": "R"}, {"name": "default", "template": "hello"}]
    for template in ("hello", several):
        write(folder, "tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": template})
        prompts = load_chat_model(folder, "m").prompts
        assert len(prompts.encode([{"role": "user", "content": "x"}])) > 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tokenizer.json", None),
        ("tokenizer.json", "version https://git-lfs.github.com/spec/v1"),
        ("tokenizer_config.json", "[]"),
        ("generation_config.json", "<html>"),
        ("chat_template.jinja", "{% for %}"),
    ],
)
def test_a_file_that_cannot_be_used_is_named(folder: Path, name: str, content: str | None) -> None:
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(ModelFolderUnusable, match=name.partition(".")[0].replace("chat_template", "template")):
        load_chat_model(folder, "m")
