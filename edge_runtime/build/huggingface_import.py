"""`import DIR`: a Hugging Face folder that a person has becomes a model among the others, quantized on the way."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_runtime.build import imports
from edge_runtime.build.errors import NotImportable
from edge_runtime.build.huggingface import builder, folder
from edge_runtime.build.huggingface.config import FAMILIES, read_config
from edge_runtime.build.huggingface.merging import write_merged
from edge_runtime.build.huggingface.safetensors_folder import SafetensorsFolder, weight_files
from edge_runtime.build.huggingface.tensors import Precision
from edge_runtime.build.imports import Import
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import Recipe
from edge_runtime.models.staging import Staging
from runtime_server.model_manifest import digest_of, hash_file

_OURS = "quantized in blocks of 32, first form"  # changes whenever the same files would give other bytes
_BUILDERS = "onnxruntime-genai's model builder"
_TOOLS = ("onnx", "onnxruntime", "safetensors", "tokenizers")
_BUILDERS_TOOLS = ("onnxruntime-genai", "torch", "transformers")
_LARGEST_GROWTH = 4.2  # bfloat16 in float32, for the comparison, and the model itself; a merged copy likewise
_SPARE_BYTES = 256 << 20


def import_huggingface(
    source: Path,
    name: str | None,
    models: Path,
    steps: Steps,
    *,
    precision: Precision,
    adapter: Path | None = None,
    force: bool,
) -> None:
    """Make a model folder of a Hugging Face folder.

    Args:
        source: The folder: `config.json`, `tokenizer.json` and safetensors files.
        name: What the model is called; without it, the folder's own name in lower case.
        models: The folder of models.
        steps: Where progress is shown.
        precision: How weights are kept.
        adapter: A folder with a low-rank adapter to merge into the weights first.
        force: Let the model in even if its figures say that it lost too much; the manifest says so then.

    Raises:
        BuildError: The message names the way on.
    """
    wanted = _Wanted(source, adapter, precision, read_config(source))
    if not wanted.ours:
        builder.require_builder()
    wanted.require_files()
    prepare = functools.partial(_prepare, wanted, imports.model_name(source, name), steps)
    imports.run(models, steps, prepare, force=force)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is imported: `config` is the folder's `config.json`."""

    source: Path
    adapter: Path | None
    precision: Precision
    config: Mapping[str, Any]

    @property
    def ours(self) -> bool:
        """Whether the family has a graph of ours."""
        return self.config["model_type"] in FAMILIES

    @property
    def files(self) -> list[Path]:
        """What the model depends on."""
        files = [self.source / "config.json", self.source / "tokenizer.json", *weight_files(self.source)]
        if self.adapter is not None:
            files += [self.adapter / "adapter_config.json", self.adapter / "adapter_model.safetensors"]
        return files

    @property
    def tools(self) -> tuple[str, ...]:
        """The packages whose versions are recorded."""
        return _TOOLS if self.ours else (*_TOOLS, *_BUILDERS_TOOLS)

    def require_files(self) -> None:
        """Look whether everything is there.

        Raises:
            NotImportable: A file is missing.
        """
        for path in self.files:
            if not path.is_file():
                raise NotImportable(f"There is no file {path}.")


def _prepare(wanted: _Wanted, name: str, steps: Steps, work: Staging) -> Import:
    source, adapter, files = wanted.source, wanted.adapter, wanted.files
    with steps.step(f"Reading {source.absolute().name}"):
        if not wanted.ours:
            SafetensorsFolder(source).require_whole(wanted.config.get("vocab_size"))
        digest = digest_of({f"{path.parent.name}/{path.name}": hash_file(path) for path in files})
    origin = {
        "folder": source.absolute().name,
        **({} if adapter is None else {"adapter": adapter.absolute().name}),
        "files_sha256": digest,
        "how": f"{wanted.precision.value}, {_OURS if wanted.ours else _BUILDERS}",
    }
    write: Callable[[Precision, Path], int]
    if wanted.ours:
        write = functools.partial(folder.write_folder, source, wanted.config, adapter)
    else:
        write = functools.partial(_build, source, adapter, work)
    return Import(
        Recipe(name=name, public_model=name, format="onnx-genai", source=origin, tools=wanted.tools),
        space_bytes=int(sum(path.stat().st_size for path in files) * _LARGEST_GROWTH) + _SPARE_BYTES,
        doing=f"Making its graphs ({wanted.precision.value})",
        write=functools.partial(write, wanted.precision),
        write_reference=functools.partial(write, Precision.FP32),
    )


def _build(source: Path, adapter: Path | None, work: Staging, precision: Precision, into: Path) -> int:
    """Call the builder, on a merged copy where there is an adapter; the copy is made once."""
    if adapter is not None:
        merged = work.folder / "merged"
        if not merged.exists():
            write_merged(source, adapter, work.room("merged"))
        source = merged
    cache = work.folder / "cache"
    cache.mkdir(exist_ok=True)
    return builder.build_folder(source, precision, into, cache=cache, lock=work.lock)
