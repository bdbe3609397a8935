"""What of a request for tensors is text: every string beside the tensors, and the elements of those of BYTES.

Whatever else a tensor holds cannot be read: numbers may be a picture, a sound, or characters one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from inference_protocol.open_inference.call import TensorCall
from inference_protocol.open_inference.datatypes import Datatype
from inference_protocol.text_parts import TextPart, Uninspectable, UninspectableCause, text_parts

# Elements that are shorter on average may be pieces of one text.
_SHORT_CHARS = 16


def tensor_text_parts(tree: Mapping[str, Any], call: TensorCall) -> Iterator[TextPart]:
    """Yield every string of a request, and a part that cannot be read for each tensor that holds one."""
    if call.version is not None:  # it stands in the path, which goes to the target too
        yield TextPart("version", None, call.version)
    yield from text_parts({**tree, "inputs": [_without_data(each) for each in tree["inputs"]]})
    for tensor in call.inputs:
        path, name = f"{tensor.heading.at}.data", tensor.heading.name
        if tensor.heading.datatype is not Datatype.BYTES:
            yield TextPart(path, None, Uninspectable(UninspectableCause.BLOB), name)
            continue
        texts = list(_texts(tensor.data))
        if len(texts) < len(tensor.data):
            yield TextPart(path, None, Uninspectable(UninspectableCause.BLOB), name)
        for part in text_parts({"data": texts}):
            yield replace(part, path=f"{tensor.heading.at}.{part.path}", field=name)
        if len(texts) > 1 and sum(map(len, texts)) <= _SHORT_CHARS * len(texts):
            yield TextPart(path, None, "".join(texts), name)  # a value may be cut into its pieces


def _without_data(given: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in given.items() if key != "data"}


def _texts(elements: Sequence[bytes] | memoryview) -> Iterator[str]:
    for element in elements:
        assert isinstance(element, bytes), "it is a tensor of BYTES"
        try:
            yield element.decode("utf-8")
        except UnicodeDecodeError:
            continue  # the bytes of something, whatever it may be
