"""A model that embeds in torch: transformers' own encoder, with the pooling that its publisher trained it for."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import AutoModel

from inference_protocol.execution import Execution
from runtime_server.embeddings.model import EmbeddingFailed, Rows, Vectors


class TorchEmbedding:
    """Satisfies `runtime_server.embeddings.model.EmbeddingModel`."""

    def __init__(self, folder: Path) -> None:
        """Load it, on a GPU where there is one.

        Raises:
            OSError: A file is missing.
            ValueError: It is no model that transformers knows.
        """
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        loaded = AutoModel.from_pretrained(folder, local_files_only=True, dtype=torch.float32, add_pooling_layer=False)
        self._model = loaded.to(self._device).eval()
        self.execution = Execution(f"torch-{self._device.type}")

    def run(self, rows: Rows) -> Vectors:  # noqa: D102  # see `EmbeddingModel`
        longest = max(map(len, rows))
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for at, row in enumerate(rows):
            ids[at, : len(row)] = torch.tensor(row)
            mask[at, : len(row)] = 1
        ids, mask = ids.to(self._device), mask.to(self._device)
        try:
            with torch.inference_mode():
                hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
                column = mask.unsqueeze(-1).to(hidden.dtype)
                mean = (hidden * column).sum(1) / column.sum(1).clamp(min=1e-9)
                vectors = torch.nn.functional.normalize(mean, dim=1)
        except (RuntimeError, IndexError) as error:
            raise EmbeddingFailed(type(error).__name__) from None
        found: Vectors = vectors.cpu().numpy()
        return found

    def interrupt(self) -> None:
        """Do nothing: a run of torch ends when it ends."""

    def close(self) -> None:
        """Let the weights go."""
        del self._model
