"""Models that people download as GGUF files, by their shapes, and what each type of blocks makes of their size.

Shapes: the models' own `config.json`. Mixtures: llama.cpp's `llama-quantize`.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge_runtime.generation.genai_config import DecoderConfig, ModelConfig

# Bits of a weight: in the file, and in the graph, where a block has a float32 scale and, with a minimum, an offset.
_BITS = {
    "Q4_0": (4.5, 4 + 32 / 32),
    "Q4_K": (4.5, 4 + 64 / 32),
    "Q5_0": (5.5, 8 + 32 / 32),
    "Q5_1": (6.0, 8 + 64 / 32),
    "Q5_K": (5.5, 8 + 64 / 32),
    "Q6_K": (6.5625, 8 + 32 / 16),
    "Q8_0": (8.5, 8 + 32 / 32),
}
_SUPERBLOCK = 256
_WITHOUT_SUPERBLOCKS = {"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}  # where rows are no multiple of 256


@dataclass(frozen=True, slots=True)
class Mixture:
    """Types of blocks as they are mixed in one file.

    Attributes:
        most: Of most matrices.
        more: Of half of the values' and the down projections, which need more bits.
        head: Of the head, or of the embedding where that is the head.
    """

    most: str
    more: str
    head: str


MIXTURES = (
    ("Q4_0", Mixture("Q4_0", "Q4_0", "Q6_K")),
    ("Q4_K_M", Mixture("Q4_K", "Q6_K", "Q6_K")),
    ("Q5_K_M", Mixture("Q5_K", "Q6_K", "Q6_K")),
    ("Q8_0", Mixture("Q8_0", "Q8_0", "Q8_0")),
)


@dataclass(frozen=True, slots=True)
class KnownModel:
    """The shape of one model."""

    name: str
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    window: int
    tied: bool

    def config(self, bytes_per_token: int) -> ModelConfig:
        """Return what an import's folder would say of it."""
        decoder = DecoderConfig(
            filename="model.onnx",
            prefill_filename="prefill.onnx",
            bytes_per_token=bytes_per_token,
            num_hidden_layers=self.layers,
            num_key_value_heads=self.kv_heads,
            head_size=self.head_size,
            hidden_size=self.hidden,
            num_attention_heads=self.heads,
            inputs={"logits_indices": "logits_indices"},  # type: ignore[arg-type]  # pydantic reads it
        )
        return ModelConfig(context_length=self.window, vocab_size=self.vocabulary, decoder=decoder)

    def sizes(self, mixture: Mixture) -> tuple[int, int, int]:
        """Return bytes of the file, of the graph's weights, and of those that one token reads."""
        queries, keys = self.heads * self.head_size, self.kv_heads * self.head_size
        more = self.layers * (keys * self.hidden + self.feed_forward * self.hidden) // 2
        layers = self.layers * self.hidden * (2 * queries + 2 * keys + 3 * self.feed_forward) - more
        table = self.vocabulary * self.hidden
        parts = [(layers, mixture.most), (more, mixture.more), (table, mixture.head)]
        embedding = [] if self.tied else [(table, mixture.most)]
        file, _ = self._bytes(parts + embedding)
        _, graph = self._bytes(parts + embedding)
        _, read = self._bytes(parts)
        rotary = self.window * self.head_size * 4
        return file, graph + rotary, read

    def _bytes(self, parts: list[tuple[int, str]]) -> tuple[int, int]:
        whole = self.hidden % _SUPERBLOCK == 0
        kinds = [(count, kind if whole else _WITHOUT_SUPERBLOCKS.get(kind, kind)) for count, kind in parts]
        file, graph = (sum(count * _BITS[kind][side] for count, kind in kinds) / 8 for side in (0, 1))
        return int(file), int(graph)


KNOWN_MODELS = (
    KnownModel("SmolLM2-135M", 30, 576, 1536, 9, 3, 64, 49_152, 8_192, tied=True),
    KnownModel("SmolLM2-360M", 32, 960, 2560, 15, 5, 64, 49_152, 8_192, tied=True),
    KnownModel("SmolLM2-1.7B", 24, 2048, 8192, 32, 32, 64, 49_152, 8_192, tied=True),
    KnownModel("Qwen2.5-0.5B", 24, 896, 4864, 14, 2, 64, 151_936, 32_768, tied=True),
    KnownModel("Qwen2.5-1.5B", 28, 1536, 8960, 12, 2, 128, 151_936, 32_768, tied=True),
    KnownModel("Qwen2.5-3B", 36, 2048, 11_008, 16, 2, 128, 151_936, 32_768, tied=True),
    KnownModel("Qwen2.5-7B", 28, 3584, 18_944, 28, 4, 128, 152_064, 32_768, tied=False),
    KnownModel("Qwen3-0.6B", 28, 1024, 3072, 16, 8, 128, 151_936, 40_960, tied=True),
    KnownModel("Qwen3-1.7B", 28, 2048, 6144, 16, 8, 128, 151_936, 40_960, tied=True),
    KnownModel("Qwen3-4B", 36, 2560, 9728, 32, 8, 128, 151_936, 40_960, tied=True),
    KnownModel("Qwen3-8B", 36, 4096, 12_288, 32, 8, 128, 151_936, 40_960, tied=False),
    KnownModel("TinyLlama-1.1B", 22, 2048, 5632, 32, 4, 64, 32_000, 2_048, tied=False),
    KnownModel("Llama-3.2-1B", 16, 2048, 8192, 32, 8, 64, 128_256, 131_072, tied=True),
    KnownModel("Llama-3.2-3B", 28, 3072, 8192, 24, 8, 128, 128_256, 131_072, tied=True),
    KnownModel("Llama-3.1-8B", 32, 4096, 14_336, 32, 8, 128, 128_256, 131_072, tied=False),
    KnownModel("Mistral-7B-v0.3", 32, 4096, 14_336, 32, 8, 128, 32_768, 32_768, tied=False),
)
