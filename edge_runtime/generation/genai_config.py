"""The part of onnxruntime-genai's `genai_config.json` that says what a decoder graph looks like.

Format: https://onnxruntime.ai/docs/genai/reference/config.html. Its other fields steer a loop that is not ours, and
some of those here are not among its own: `logits_indices`, `prefill_filename` and `bytes_per_token`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from runtime_server.model_manifest import ModelUnsupported

FILE_NAME = "genai_config.json"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class GraphInputs(_Part):
    """Names of the graph's inputs; `%d` stands for the layer."""

    input_ids: str = "input_ids"
    attention_mask: str = "attention_mask"
    position_ids: str = "position_ids"
    logits_indices: str = "logits_indices"
    past_key_names: str = "past_key_values.%d.key"
    past_value_names: str = "past_key_values.%d.value"


class GraphOutputs(_Part):
    """Names of the graph's outputs; `%d` stands for the layer."""

    logits: str = "logits"
    present_key_names: str = "present.%d.key"
    present_value_names: str = "present.%d.value"


class DecoderConfig(_Part):
    """Sizes of the decoder and where it stands in the folder.

    Attributes:
        prefill_filename: A second graph with the same inputs and outputs, for reading prompts, where there is one.
        bytes_per_token: Of the weights that one decoded token reads, where the folder's maker counted them.
    """

    filename: str
    prefill_filename: str | None = None
    bytes_per_token: int | None = Field(default=None, gt=0)
    num_hidden_layers: int = Field(gt=0)
    num_key_value_heads: int = Field(gt=0)
    head_size: int = Field(gt=0)
    hidden_size: int | None = Field(default=None, gt=0)
    num_attention_heads: int | None = Field(default=None, gt=0)
    inputs: GraphInputs = GraphInputs()
    outputs: GraphOutputs = GraphOutputs()


class ModelConfig(_Part):
    """What the model can hold and say."""

    context_length: int = Field(gt=0)
    vocab_size: int = Field(gt=0)
    decoder: DecoderConfig


class _GenaiConfig(_Part):
    model: ModelConfig


def read_genai_config(folder: Path) -> ModelConfig:
    """Read the model's description.

    Raises:
        ModelUnsupported: The file is missing or does not describe a decoder.
    """
    try:
        return _GenaiConfig.model_validate_json((folder / FILE_NAME).read_bytes()).model
    except OSError as error:
        raise ModelUnsupported(f"{folder / FILE_NAME} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ModelUnsupported(f"{folder / FILE_NAME} does not describe a decoder: {where}: {first['msg']}.") from error
