"""Expands a GGUF file to a Hugging Face folder in float32. Run as a process: `… GGUF DESTINATION`.

transformers reads GGUF, but what it returns cannot be saved (it believes itself quantized) and its tokenizer has lost
the splitting rule that the file names. Both are mended here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaForCausalLM


def convert(gguf: Path, destination: Path) -> None:
    """Write the model, its configuration, tokenizer and chat template."""
    model = _clean(AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32))
    model.save_pretrained(destination)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.backend_tokenizer.pre_tokenizer = _pre_tokenizer(gguf)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(destination)


def _clean(expanded: Any) -> Any:
    """The same weights in a model that was never quantized."""
    config = expanded.config.to_dict()
    for name in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        config.pop(name, None)
    model = LlamaForCausalLM(type(expanded.config)(**config))
    model.load_state_dict(expanded.state_dict())
    special = {name: config[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    model.generation_config = GenerationConfig(**special)
    return model


def _pre_tokenizer(gguf: Path) -> Any:
    """How text is cut before byte pairs are merged. GGUF gives only a name; llama.cpp says what each means.

    Raises:
        ValueError: A name that is not known here: a guess would count and read tokens wrongly.
    """
    name = GGUFReader(gguf).fields["tokenizer.ggml.pre"].contents()
    if name != "smollm":
        raise ValueError(f"The tokenizer splits text by the rule `{name}`, which is not known here.")
    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
