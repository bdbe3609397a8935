"""What cannot be imported without loss is refused, and the message names what stands in the way."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFValueType

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.folder import write_folder
from tests.support.gguf_files import HIDDEN, Contents, make_contents

Change = Callable[[Contents], object]


def refusal(path: Path, tmp_path: Path) -> str:
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(NotImportable) as refused:
        write_folder(path, folder)
    return str(refused.value)


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "pointer of git-lfs"),
        (b"  <!DOCTYPE html><html><body>Sign in</body></html>", "a web page"),
        (b"\xef\xbb\xbf<html>", "a web page"),
        (b"\0" * 5000, "filled with zeros"),
        (b"", "empty"),
        (b"PK\x03\x04" + b"x" * 100, "of another format"),
    ],
)
def test_what_is_no_gguf_file_is_called_by_its_name(tmp_path: Path, content: bytes, cause: str) -> None:
    (tmp_path / "model.gguf").write_bytes(content)
    assert cause in refusal(tmp_path / "model.gguf", tmp_path)


def test_a_file_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "none.gguf", tmp_path)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.3, 0.9, 0.9999])
def test_a_file_that_was_cut_short_anywhere_is_refused(tmp_path: Path, share: float) -> None:
    path = make_contents().write(tmp_path / "model.gguf")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert "cut short or damaged" in refusal(path, tmp_path)


@pytest.mark.parametrize("at", [4, 8, 16])
def test_scrambled_counts_and_versions_are_refused(tmp_path: Path, at: int) -> None:
    path = make_contents().write(tmp_path / "model.gguf")
    content = bytearray(path.read_bytes())
    content[at : at + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(content)
    assert "cut short or damaged" in refusal(path, tmp_path)


def drop(key: str) -> Change:
    return lambda made: made.keys.pop(key)


def put(key: str, value: object) -> Change:
    return lambda made: made.keys.update({key: value})


def drop_tensor(name: str) -> Change:
    return lambda made: made.tensors.pop(name)


def put_tensor(name: str, *shape: int, kind: GGMLQuantizationType = GGMLQuantizationType.F32) -> Change:
    return lambda made: made.tensors.update({name: (kind, np.zeros(shape, np.float32), shape)})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (drop("llama.block_count"), "`llama.block_count`"),
        (drop("llama.attention.layer_norm_rms_epsilon"), "`llama.attention.layer_norm_rms_epsilon`"),
        (put("llama.embedding_length", "wide"), "`llama.embedding_length` that is str, not int"),
        (put("llama.expert_count", 8), "`llama.expert_count`"),
        (put("llama.rope.scaling.type", "yarn"), "`yarn` (key `llama.rope.scaling.type`)"),
        (put("llama.rope.dimension_count", 32), "`llama.rope.dimension_count`"),
        (put("llama.attention.clamp_kqv", 3.0), "`llama.attention.clamp_kqv`"),
        (put("tokenizer.ggml.model", "bert"), "`bert` (key `tokenizer.ggml.model`)"),
        (put("tokenizer.ggml.pre", "jais-2"), "`jais-2` (key `tokenizer.ggml.pre`)"),
        (drop("tokenizer.ggml.pre"), "`tokenizer.ggml.pre`"),
        (drop("tokenizer.ggml.token_type"), "`tokenizer.ggml.token_type`"),
        (drop("tokenizer.ggml.eos_token_id"), "`tokenizer.ggml.eos_token_id`"),
        (put("tokenizer.ggml.eos_token_id", 9999), "eos_token is token 9999"),
        (put("tokenizer.ggml.merges", ["q q"]), "'q q' (key `tokenizer.ggml.merges`)"),
        (drop("tokenizer.chat_template"), "`tokenizer.chat_template`"),
        (put("tokenizer.ggml.add_bos_token", True), "bos_token"),
        (put("llama.context_length", 2**31 - 1), "2147483647 (keys `llama.context_length`"),
        (put("llama.context_length", 2), "2 (keys `llama.context_length`"),
        (put("llama.attention.sliding_window", 1), "`llama.attention.sliding_window`"),
        (put("llama.attention.head_count", 0), "`llama.attention.head_count`"),
        (put("llama.attention.head_count_kv", 3), "`llama.attention.head_count_kv`"),
        (put("llama.attention.key_length", 63), "`llama.attention.key_length`"),
        (put("llama.attention.layer_norm_rms_epsilon", -1.0), "`llama.attention.layer_norm_rms_epsilon`"),
        (put("llama.rope.freq_base", float("nan")), "`llama.rope.freq_base`"),
        (put("llama.rope.scaling.factor", 0.0), "`llama.rope.scaling.factor`"),
        (put_tensor("rope_freqs.weight", 32), "`rope_freqs.weight`"),
        (drop_tensor("blk.1.ffn_up.weight"), "`blk.1.ffn_up.weight`"),
        (drop_tensor("token_embd.weight"), "`token_embd.weight`"),
        (put_tensor("blk.0.ffn_gate_exps.weight", 4, HIDDEN), "`blk.0.ffn_gate_exps.weight`"),
        (put_tensor("blk.0.attn_k.weight", 96, HIDDEN), "`blk.0.attn_k.weight` is (96, 256)"),
        (put_tensor("blk.0.attn_q_norm.weight", 64), "`blk.0.attn_q_norm.weight`"),
    ],
)
def test_a_key_or_tensor_that_is_missing_wrong_or_unknown_is_named(tmp_path: Path, change: Change, named: str) -> None:
    made = make_contents()
    change(made)
    assert named in refusal(made.write(tmp_path / "model.gguf"), tmp_path)


@pytest.mark.parametrize("of_type", [GGUFValueType.UINT8, GGUFValueType.STRING, GGUFValueType.ARRAY])
@pytest.mark.parametrize("entries", [2**62, 2**22])
def test_a_list_that_says_it_is_longer_than_can_be_is_not_read(
    tmp_path: Path, of_type: GGUFValueType, entries: int
) -> None:
    path = make_contents().write(tmp_path / "model.gguf")
    content = bytearray(path.read_bytes())
    at = content.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 4
    content[at : at + 12] = struct.pack("<IQ", of_type, entries)
    path.write_bytes(content)
    assert f"a list among its keys has {entries} entries" in refusal(path, tmp_path)


@pytest.mark.parametrize("offset", [0, 1])
def test_tensors_that_share_bytes_are_refused(tmp_path: Path, offset: int) -> None:
    path = make_contents().write(tmp_path / "model.gguf")
    content = bytearray(path.read_bytes())
    at = content.index(b"blk.0.ffn_up.weight") + len(b"blk.0.ffn_up.weight") + 24
    content[at : at + 8] = struct.pack("<Q", offset)
    path.write_bytes(content)
    assert "the tensor `blk.0.ffn_up.weight` begins within another one" in refusal(path, tmp_path)


def test_a_file_whose_end_was_lost_to_zeros_is_refused_by_the_tensor(tmp_path: Path) -> None:
    path = make_contents().write(tmp_path / "model.gguf")
    content = path.read_bytes()
    path.write_bytes(content[:-300_000] + bytes(300_000))
    assert "is filled with zeros: the download did not finish" in refusal(path, tmp_path)


@pytest.mark.parametrize("name", ["token_embd.weight", "blk.1.ffn_down.weight", "output_norm.weight"])
def test_a_tensor_of_zeros_is_refused_by_name(tmp_path: Path, name: str) -> None:
    made = make_contents()
    kind, data, shape = made.tensors[name]
    made.tensors[name] = (kind, np.zeros_like(data), shape)
    assert f"`{name}` is filled with zeros" in refusal(made.write(tmp_path / "model.gguf"), tmp_path)


def test_a_hole_of_zeros_within_a_matrix_is_refused_but_rows_for_no_token_are_not(tmp_path: Path) -> None:
    made = make_contents(tied=False)
    for name in ("token_embd.weight", "output.weight", "blk.0.ffn_up.weight"):
        made.tensors[name][1][-60:] = 0
    assert "`blk.0.ffn_up.weight` is filled with zeros" in refusal(made.write(tmp_path / "model.gguf"), tmp_path)


def test_a_hole_of_zeros_within_an_embedding_is_told_from_rows_for_no_token(tmp_path: Path) -> None:
    made = make_contents()
    data = made.tensors["token_embd.weight"][1].reshape(-1).view(np.uint8)
    data[5000:15000] = 0
    assert "`token_embd.weight` is filled with zeros" in refusal(made.write(tmp_path / "model.gguf"), tmp_path)


@pytest.mark.parametrize(
    "name", ["token_embd.weight", "blk.1.ffn_up.weight", "output_norm.weight", "blk.0.attn_q.bias"]
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_refused_by_its_tensor(tmp_path: Path, name: str, value: float) -> None:
    made = make_contents("qwen2", biases=True)
    kind, data, shape = made.tensors[name]
    damaged = data.copy()
    damaged.reshape(-1).view(np.uint8)[:4] = np.frombuffer(
        np.float32(value) if kind is GGMLQuantizationType.F32 else np.array([value, 0], np.float16), np.uint8
    )
    made.tensors[name] = (kind, damaged, shape)
    assert f"`{name}` holds values that are no numbers" in refusal(made.write(tmp_path / "model.gguf"), tmp_path)


def test_another_architecture_is_named_with_those_that_are_supported(tmp_path: Path) -> None:
    made = make_contents("gemma3")
    said = refusal(made.write(tmp_path / "model.gguf"), tmp_path)
    assert "`gemma3` (key `general.architecture`) is not supported; llama, qwen2, qwen3 are" in said


def test_a_type_of_block_that_is_not_supported_is_named_with_its_tensor(tmp_path: Path) -> None:
    made = make_contents()
    made.tensors["blk.1.ffn_up.weight"] = (GGMLQuantizationType.IQ2_XS, np.zeros((512, 74), np.uint8), (512, 256))
    assert "`blk.1.ffn_up.weight` is IQ2_XS" in refusal(made.write(tmp_path / "model.gguf"), tmp_path)


def test_an_embedding_of_another_size_than_the_vocabulary_is_refused(tmp_path: Path) -> None:
    made = make_contents()
    made.keys["tokenizer.ggml.tokens"] = [*made.keys["tokenizer.ggml.tokens"], "one more"]
    made.keys["tokenizer.ggml.token_type"] = [*made.keys["tokenizer.ggml.token_type"], 1]
    assert "`token_embd.weight` has 262 rows for 263 tokens" in refusal(made.write(tmp_path / "model.gguf"), tmp_path)


def test_a_sliding_window_becomes_the_window(tmp_path: Path) -> None:
    made = make_contents()
    made.keys["llama.attention.sliding_window"] = 100
    (tmp_path / "out").mkdir()
    assert write_folder(made.write(tmp_path / "model.gguf"), tmp_path / "out") == 100
