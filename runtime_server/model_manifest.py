"""What a model folder says it holds, so that a runtime serves exactly the files that were built, or refuses.

A folder is complete when it holds `manifest.json`, which is written last. It lists every file with its sha256 and
size. Bit rot is why that matters: ONNX Runtime loads zeroed weights happily and answers with noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from inference_protocol.capability import FURTHER_PARAMETERS
from inference_protocol.runtime_state import ServedModel
from observability.disk import sync, write_whole
from serving.start import StartRefused

FILE_NAME = "manifest.json"
SIGNATURES_NAME = "signatures.json"
ORIGIN_NAME = "origin.json"
# Of a manifest, or of its signatures: a model of a thousand files has a tenth of that.
MOST_BYTES = 2 << 20
# Answers to one request: more of them than there are slots wait for each other.
MAX_N = 16
# What stands beside a model's files and is not among them: the manifest, who signed it, where this copy came from.
_BESIDE = frozenset({FILE_NAME, SIGNATURES_NAME, ORIGIN_NAME})


class ModelMissing(StartRefused):
    """The folder is not there or was never completed."""


class ModelDamaged(StartRefused):
    """A file of the folder is not what the manifest says. The message names the file."""


class ModelUnsupported(StartRefused):
    """The folder is whole, but not one that this engine can run. The message says why."""


class FileDigest(BaseModel):
    """One file's content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    size: Annotated[int, Field(ge=0)]


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path:
        raise ValueError("a file's path must stay inside the model's folder")
    return path


class GateFigures(BaseModel):
    """What decoding costs against the same weights with exact activations, on a held-out text.

    Attributes:
        tokens: Length of the text.
        mean_kl: Mean Kullback-Leibler divergence of the next token's distribution, in nats.
        top1_agreement: Share of positions with the same likeliest token.
        perplexity: Of the text, as it is decoded.
        perplexity_exact: Of the text, with exact activations.
        greedy_agreement: Share of a greedy answer of 32 tokens that comes before the first difference.
        tokenizer_round_trip: Whether texts in many languages come back as they were.
        forced: Whether the model was let in although it failed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tokens: int
    mean_kl: float
    top1_agreement: float
    perplexity: float
    perplexity_exact: float
    greedy_agreement: float
    tokenizer_round_trip: bool
    forced: bool = False


class Manifest(BaseModel):
    """The content of `manifest.json`.

    Attributes:
        name: The folder's name.
        public_model: The name clients ask for.
        digest: `digest_of(files)`: one value for the whole model.
        files: Path below the folder, with `/`, to content. The manifest itself is not among them.
        source: What it was made from and how; equal sources need no second build.
        format: `onnx-genai`: a folder of onnxruntime-genai's model builder. `onnx-embedding`: a graph from token ids to
            vectors of length 1, with the `config.json` and the tokenizer that it was made of. `onnx-tensors`: graphs
            from tensors to tensors, with a `tensors.json` that says what they do not. `huggingface`: one of
            transformers.
        window: Most tokens of prompt and answer together, or of one input.
        created_by: Package to version of the tools that wrote it.
        gate: What was measured before it was let in, where that was.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    public_model: str
    digest: str
    files: dict[Annotated[str, AfterValidator(_inside)], FileDigest]
    source: dict[str, Any]
    format: Literal["onnx-genai", "onnx-embedding", "onnx-tensors", "huggingface"]
    window: Annotated[int, Field(gt=0)]
    created_by: dict[str, str]
    gate: GateFigures | None = None

    @model_validator(mode="after")
    def _digest_is_of_files(self) -> Manifest:
        if self.digest != digest_of(self.files):
            raise ValueError("`digest` is not the digest of `files`")
        return self

    def served_as(self, name: str, window: int, *, prompt_logprobs: bool = True) -> ServedModel:
        """Return what a runtime tells of this model: what the front and the engines can do, they can with each.

        Args:
            name: That it answers to.
            window: Most tokens of prompt and answer together in one slot, which may be less than the model's own.
            prompt_logprobs: Whether the engine can tell those.
        """
        tokenizer = self.files.get("tokenizer.json")
        return ServedModel(
            id=name,
            digest=self.digest,
            window=window,
            tools=True,
            json_schema=True,
            logprobs=True,
            prompt_logprobs=prompt_logprobs,
            max_n=MAX_N,
            parameters=FURTHER_PARAMETERS,
            tokenizer_digest=tokenizer.sha256 if tokenizer else None,
        )


def digest_of(files: Mapping[str, FileDigest]) -> str:
    """Return the sha256, hex, over the lines `path sha256`, sorted by path, each ended by a newline."""
    lines = (f"{path} {files[path].sha256}\n" for path in sorted(files))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def hash_file(path: Path) -> FileDigest:
    """Read one file."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileDigest(sha256=sha256, size=file.tell())


def hash_folder(folder: Path) -> dict[str, FileDigest]:
    """Read every file of a model; what stands beside them is not among them."""
    return {name: hash_file(folder / name) for name in _names(folder)}


def manifest_id(folder: Path) -> str:
    """Return the sha256, hex, of a folder's manifest, which stands for the whole version, and is what is signed.

    Raises:
        ModelMissing: There is no folder, or no manifest in it.
    """
    return hashlib.sha256(manifest_bytes(folder)).hexdigest()


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Complete a folder. Everything in it is on the disk before the manifest is."""
    for name in manifest.files:
        sync(folder / name)
    for inner in {(folder / name).parent for name in manifest.files} - {folder}:
        sync(inner)
    write_whole(folder / FILE_NAME, f"{manifest.model_dump_json(indent=2)}\n".encode(), mode=0o666)


def manifest_bytes(folder: Path) -> bytes:
    """Read a folder's manifest as it stands there.

    Raises:
        ModelMissing: There is no folder, or no manifest in it.
        ModelDamaged: It is longer than any manifest.
    """
    try:
        with (folder / FILE_NAME).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise ModelMissing(f"There is no complete model in {folder}: {FILE_NAME} is missing.") from None
    if len(content) > MOST_BYTES:
        raise ModelDamaged(f"{folder / FILE_NAME} has more than {MOST_BYTES} bytes, which no manifest has.")
    return content


def read_manifest(folder: Path) -> Manifest:
    """Read a folder's manifest; the files are not looked at.

    Raises:
        ModelMissing: There is no folder, or no manifest in it.
        ModelDamaged: The manifest cannot be read as one.
    """
    content = manifest_bytes(folder)
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "its content"
        raise ModelDamaged(f"{folder / FILE_NAME} cannot be read: {where}: {first['msg']}.") from None


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Look whether every file is there with its size; costs no reading.

    Raises:
        ModelDamaged: One is not.
    """
    for name, expected in manifest.files.items():
        fault = _size_fault(folder / name, expected)
        if fault is not None:
            raise ModelDamaged(fault)


def faults(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Read every file and yield a sentence for each that is not what the manifest says."""
    for name, expected in manifest.files.items():
        fault = _size_fault(folder / name, expected)
        if fault is None and hash_file(folder / name).sha256 != expected.sha256:
            fault = f"The content of {folder / name} is not what its manifest says."
        if fault is not None:
            yield fault
    for name in _names(folder):
        if name not in manifest.files:
            yield f"{folder / name} is not among the files that the manifest lists."


def verify(folder: Path, manifest: Manifest) -> None:
    """Read every file and compare it with the manifest: about a second for a gigabyte.

    A file that the manifest does not list counts too: a chat template that somebody added would be served.

    Raises:
        ModelDamaged: A file is missing, is not listed, or its content is another.
    """
    check_sizes(folder, manifest)
    fault = next(faults(folder, manifest), None)
    if fault is not None:
        raise ModelDamaged(fault)


def _size_fault(path: Path, expected: FileDigest) -> str | None:
    if not path.is_file():
        return f"{path} is missing."
    size = path.stat().st_size
    return None if size == expected.size else f"{path} has {size} bytes where its manifest says {expected.size}."


def _names(folder: Path) -> list[str]:
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    return sorted(name for name in found if name not in _BESIDE)
