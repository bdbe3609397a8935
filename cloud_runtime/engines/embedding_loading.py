"""From a verified folder to a model that embeds, without torch until then."""

from __future__ import annotations

from pathlib import Path

from runtime_server.embeddings.model import EmbeddingModel
from runtime_server.model_manifest import Manifest, ModelUnsupported


def load_embedding_model(folder: Path, manifest: Manifest) -> EmbeddingModel:
    """Load a folder's model.

    Raises:
        ModelUnsupported: It is not one that transformers can load.
    """
    if manifest.format != "huggingface":
        raise ModelUnsupported(f"{folder} is of the format {manifest.format}; torch embeds with huggingface folders.")
    from cloud_runtime.engines.embedding_model import TorchEmbedding  # noqa: PLC0415  # torch takes seconds to import

    try:
        return TorchEmbedding(folder)
    except (OSError, ValueError) as error:
        raise ModelUnsupported(f"The model in {folder} cannot be loaded: {error}") from error
