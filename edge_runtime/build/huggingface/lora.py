"""Low-rank adapters (arXiv:2106.09685), merged into the weights that they were trained beside.

    merged = weight + (alpha / r) · B · A             rank-stabilized: alpha / √r (arXiv:2312.03732)

Format: what `peft` saves, `adapter_config.json` and `adapter_model.safetensors`. Everything is computed in float32.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Floats
from edge_runtime.build.huggingface.safetensors_folder import SafetensorsFolder
from edge_runtime.build.lost_content import require_filled, require_numbers

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
# What changes the formula. Each is refused by its name, unless it has this value or says nothing.
_NEUTRAL: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("use_dora", (False,)),
    ("bias", ("none",)),
    ("lora_bias", (False,)),
    ("modules_to_save", ([],)),
    ("fan_in_fan_out", (False,)),
    ("rank_pattern", ({},)),
    ("alpha_pattern", ({},)),
    ("trainable_token_indices", ([],)),
    ("target_parameters", ([],)),
    ("layer_replication", ([],)),
    ("exclude_modules", ([],)),
)


class Adapter:
    """One adapter, whose every module must find its weight."""

    def __init__(self, folder: Path) -> None:
        """Open it.

        Raises:
            NotImportable: It is not a plain LoRA.
        """
        self._folder = folder
        config = _read_config(folder)
        self._rank = int(_positive(config, "r"))
        divisor = math.sqrt(self._rank) if config.get("use_rslora") else self._rank
        self._scale = _positive(config, "lora_alpha") / divisor
        self._tensors = SafetensorsFolder(folder, _WEIGHTS)

    def merge(self, name: str, weight: Floats) -> Floats:
        """Return a weight with the adapter's product added to it, or as it is where the adapter leaves it alone.

        Args:
            name: Of the weight in the model, such as `model.layers.0.self_attn.q_proj.weight`.
            weight: `[outputs, inputs]`, float32.

        Raises:
            NotImportable: The adapter's matrices do not fit it.
        """
        module = _PREFIX + name.removesuffix(".weight")
        if f"{module}.lora_A.weight" not in self._tensors and f"{module}.lora_B.weight" not in self._tensors:
            return weight
        outputs, inputs = weight.shape
        down = self._tensors.tensor(f"{module}.lora_A.weight", self._rank, inputs)
        up = self._tensors.tensor(f"{module}.lora_B.weight", outputs, self._rank)
        require_filled(f"{module}.lora_A.weight", down)
        if up.any():  # zeros are what training begins with
            require_filled(f"{module}.lora_B.weight", up)
        merged: Floats = weight + self._scale * (up @ down)
        require_numbers(f"{module}.lora_A.weight", down, up, merged)
        return merged.astype(weight.dtype, copy=False)

    def require_used(self) -> None:
        """Look whether every matrix of the adapter found its weight.

        Raises:
            NotImportable: One did not; it is named.
        """
        unread = self._tensors.unread()
        if unread:
            raise NotImportable(f"The adapter's tensor `{unread[0]}` belongs to no matrix of this model.")


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / _CONFIG).read_bytes())
    except OSError as error:
        raise NotImportable(f"{folder / _CONFIG} cannot be read: {error.strerror}.") from None
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise NotImportable(f"{folder / _CONFIG} is no JSON object.")
    if config.get("peft_type") != "LORA":
        raise NotImportable(f"{folder / _CONFIG}: `peft_type` is {config.get('peft_type')!r}; only `LORA` is merged.")
    for key, neutral in _NEUTRAL:
        if config.get(key) is not None and config[key] not in neutral:
            raise NotImportable(f"{folder / _CONFIG}: `{key}` is {config[key]!r}, which is not merged here.")
    return config


def _positive(config: dict[str, Any], key: str) -> float:
    value = config.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise NotImportable(f"{_CONFIG}: `{key}` is {value!r}, which is no positive number.")
    return float(value)
