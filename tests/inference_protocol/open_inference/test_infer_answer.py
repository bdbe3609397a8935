from __future__ import annotations

import orjson
import pytest

from inference_protocol.open_inference.datatypes import Datatype
from inference_protocol.open_inference.infer_answer import (
    InferAnswer,
    OutputTensor,
    check_answer,
    renamed,
    write_answer,
)


def answer() -> InferAnswer:
    outputs = [
        OutputTensor("y", Datatype.INT8, (2,), b"[1,2]", binary=False),
        OutputTensor("z", Datatype.FP16, (1,), b"\x00\x3c", binary=True),
    ]
    return write_answer("served", "1", "r-1", outputs, {"timings": {"queue_ms": 1.0}})


def test_an_answer_is_json_and_the_bytes_of_those_outputs_that_go_as_bytes() -> None:
    written = answer()
    assert written.json_bytes is not None
    tree = orjson.loads(written.body[: written.json_bytes])
    assert (tree["model_name"], tree["model_version"], tree["id"]) == ("served", "1", "r-1")
    assert tree["outputs"][0] == {"name": "y", "datatype": "INT8", "shape": [2], "data": [1, 2]}
    assert tree["outputs"][1]["parameters"] == {"binary_data_size": 2}
    assert written.body[written.json_bytes :] == b"\x00\x3c"


def test_an_answer_comes_under_the_public_name_with_every_other_byte_as_it_was() -> None:
    written = answer()
    tree = check_answer(written.body, written.json_bytes, ["z"])
    public = renamed(written.body, written.json_bytes, tree, "a much longer name")
    assert check_answer(public.body, public.json_bytes, ["y", "z"]) == {**tree, "model_name": "a much longer name"}
    assert public.body.endswith(b"\x00\x3c")
    assert renamed(written.body, written.json_bytes, tree, "served").body is written.body


@pytest.mark.parametrize(
    ("body", "json_bytes"),
    [
        (b"<html>", None),
        (b'{"outputs":3}', None),
        (b'{"outputs":[]}', 5000),
        (b'{"outputs":[{"name":"z","datatype":"FP32","shape":[1]}]}', None),
        (b'{"outputs":[{"name":"z","datatype":"FP9","shape":[1],"data":[1]}]}', None),
        (b'{"outputs":[{"name":"y","datatype":"FP32","shape":[1],"data":[1]}]}', None),
        (answer().body[:-1], answer().json_bytes),
    ],
)
def test_what_is_no_whole_answer_is_told_from_one(body: bytes, json_bytes: int | None) -> None:
    with pytest.raises(ValueError, match="answer"):
        check_answer(body, json_bytes, ["z"])
