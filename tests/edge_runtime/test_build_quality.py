"""What the built edge model is worth: its answers beside those of the float32 weights that it was made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

import edge_runtime  # noqa: F401 - silences ONNX Runtime's telemetry before anything imports it

TEXT = """\
The lighthouse keeper had counted ships for thirty years, and in all that time he had never once been asked
what he did with the numbers. Every evening, when the lamp was lit and the wind had settled into its usual complaint, he
opened a thick green notebook and wrote down what had passed: two fishing boats going out before dawn, a ferry at
noon, a coal carrier low in the water, one yacht with a torn sail. He knew most of them by the sound of their
engines. In winter there were days when the page stayed empty, and on those days he drew a short line so that nobody
could say that he had forgotten.

When the new harbour office opened, a young engineer came up the stairs to explain that a computer would do the
counting from now on. She was polite about it. She showed him a small grey box with a camera and an antenna, and told
him that it could see a hull at twelve miles and read a name at three. He listened carefully, asked how the box would
behave in fog, and nodded when she admitted that nobody had tried. Then he made tea, and gave her the first of the
green notebooks to read.

She stayed until the lamp was lit. The notebooks did not only hold numbers. Beside many of the ships he had written a
word or two about the weather, the height of the waves, the colour of the sky before a storm, and sometimes the
reason why a boat had come home early. In the margin of one page, eleven years old, stood the sentence: the birds left
an hour before the wind turned. She read it twice. On her way home she began to think that the grey box might be a
good pair of eyes, but that somebody would still have to tell it what to look for.
"""


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def float32_logits(folder: Path, tokens: list[int]) -> NDArray[np.float32]:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    with torch.inference_mode():
        return np.asarray(model(torch.tensor([tokens])).logits[0].numpy())


def onnx_logits(folder: Path, tokens: list[int]) -> NDArray[np.float32]:
    """One token a run, since the graph computes the logits of the last position only."""
    import onnxruntime

    session = onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
    past = {i.name: np.zeros((1, 3, 0, 64), np.float32) for i in session.get_inputs() if i.name.startswith("past")}
    names = [output.name for output in session.get_outputs()]
    rows = []
    for position, token in enumerate(tokens):
        mask = np.ones((1, position + 1), np.int64)
        outputs = session.run(names, {"input_ids": np.array([[token]]), "attention_mask": mask, **past})
        by_name = dict(zip(names, outputs, strict=True))
        past = {name: by_name[name.replace("past_key_values", "present")] for name in past}
        rows.append(by_name["logits"][0, -1])
    return np.stack(rows)


@pytest.mark.models
def test_eight_bits_answer_almost_as_float32_does(edge_model: Path, cloud_model: Path) -> None:
    tokens = Tokenizer.from_file(str(edge_model / "tokenizer.json")).encode(TEXT).ids
    assert len(tokens) > 350
    expected = log_softmax(float32_logits(cloud_model, tokens))
    found = log_softmax(onnx_logits(edge_model, tokens))
    agreement = float((expected.argmax(-1) == found.argmax(-1)).mean())
    divergence = float((np.exp(expected) * (expected - found)).sum(-1).mean())
    surprise = float(-expected[np.arange(len(tokens) - 1), tokens[1:]].mean())
    assert surprise < 4.0, "float32 does not read English: the expansion is wrong"
    assert agreement >= 0.95, f"top-1 agreement {agreement:.3f}, mean KL {divergence:.4f}"
    assert divergence <= 0.01, f"top-1 agreement {agreement:.3f}, mean KL {divergence:.4f}"


@pytest.mark.models
def test_both_models_read_text_alike_and_digits_one_by_one(edge_model: Path, cloud_model: Path) -> None:
    edge, cloud = ((folder / "tokenizer.json").read_bytes() for folder in (edge_model, cloud_model))
    assert edge == cloud
    tokens = Tokenizer.from_str(edge.decode()).encode("if  12").tokens
    assert tokens == ["if", "ĠĠ", "1", "2"]  # the rule that GGUF only names: digits are cut before spaces join words
