from __future__ import annotations

import json
import struct
from typing import Any

import orjson
import pytest

from inference_protocol.errors import ForbiddenField, InvalidField, InvalidHeader
from inference_protocol.open_inference.infer_request import json_length, parse_infer
from inference_protocol.open_inference.tensors import encode_byte_strings
from inference_protocol.request import InferenceRequest, Task
from inference_protocol.text_parts import Uninspectable, UninspectableCause


def in_json(**fields: Any) -> InferenceRequest:
    tensor = {"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2.5], **fields}
    return parse_infer(json.dumps({"inputs": [tensor]}).encode(), "m")


def in_bytes(tail: bytes, **fields: Any) -> InferenceRequest:
    size = fields.pop("size", len(tail))
    tensor = {"name": "x", "shape": [2], "parameters": {"binary_data_size": size}, **fields}
    head = orjson.dumps({"inputs": [tensor]})
    return parse_infer(head + tail, "m", json_bytes=len(head))


def elements(request: InferenceRequest) -> list[Any]:
    assert request.tensors is not None
    return list(request.tensors.inputs[0].data)


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        ("BOOL", [True, False]),
        ("UINT8", [0, 255]),
        ("UINT16", [0, 65535]),
        ("UINT32", [0, 2**32 - 1]),
        ("UINT64", [0, 2**64 - 1]),
        ("INT8", [-128, 127]),
        ("INT16", [-32768, 32767]),
        ("INT32", [-(2**31), 2**31 - 1]),
        ("INT64", [-(2**63), 2**63 - 1]),
        ("FP32", [0.5, 7]),
        ("FP64", [1e300, -0.25]),
    ],
)
def test_every_type_but_fp16_comes_as_json_flat_or_nested(datatype: str, values: list[Any]) -> None:
    flat = in_json(datatype=datatype, data=values)
    assert (flat.task, flat.model, elements(flat)) == (Task.TENSOR, "m", values)
    assert elements(in_json(datatype=datatype, shape=[1, 2], data=[values])) == values


@pytest.mark.parametrize(
    ("datatype", "code", "values"),
    [("BOOL", "??", (True, False)), ("FP16", "<2e", (0.5, -2.0)), ("UINT64", "<2Q", (0, 2**64 - 1))],
)
def test_types_come_as_bytes_which_are_not_copied(datatype: str, code: str, values: tuple[Any, ...]) -> None:
    request = in_bytes(struct.pack(code, *values), datatype=datatype)
    assert request.tensors is not None
    data = request.tensors.inputs[0].data
    assert isinstance(data, memoryview)
    assert data.obj is request.raw
    assert struct.unpack(code, data) == values


def test_strings_come_as_json_or_each_behind_its_length() -> None:
    assert elements(in_json(datatype="BYTES", shape=[2, 1], data=[["a"], ["é"]])) == [b"a", "é".encode()]
    assert elements(in_bytes(encode_byte_strings([b"\xff\x00", b""]), datatype="BYTES")) == [b"\xff\x00", b""]


@pytest.mark.parametrize(
    ("fields", "param", "details"),
    [
        ({"datatype": "FP8"}, "inputs[0].datatype", {"reason": "wrong_datatype"}),
        ({"datatype": "FP16"}, "inputs[0].datatype", {"reason": "not_in_json"}),
        ({"datatype": None}, "inputs[0].datatype", {"reason": "wrong_datatype"}),
        ({"shape": [3]}, "inputs[0].data", {"reason": "wrong_count", "expected_shape": [3], "tensor": "x"}),
        ({"shape": [2, 1], "data": [[1], [2, 3]]}, "inputs[0].data", {"reason": "wrong_count"}),
        ({"shape": [-1]}, "inputs[0].shape", {"reason": "wrong_shape"}),
        ({"shape": [True, 2]}, "inputs[0].shape", {"reason": "wrong_shape"}),
        ({"shape": 2}, "inputs[0].shape", {"reason": "wrong_shape"}),
        ({"shape": [1 << 29]}, "inputs[0].shape", {"reason": "too_large"}),
        ({"shape": [1 << 40, 0], "data": []}, "inputs[0].shape", {"reason": "too_large"}),
        ({"data": [1, "2"]}, "inputs[0].data", {"reason": "wrong_value", "index": 1}),
        ({"data": [1, {"a": 1}]}, "inputs[0].data", {"reason": "wrong_value", "index": 1}),
        ({"datatype": "UINT8", "data": [0, 256]}, "inputs[0].data", {"reason": "wrong_value", "index": 1}),
        ({"datatype": "INT64", "data": [1.0, 2]}, "inputs[0].data", {"reason": "wrong_value", "index": 0}),
        ({"datatype": "BOOL", "data": [0, True]}, "inputs[0].data", {"reason": "wrong_value", "index": 0}),
        ({"data": [1, 1e39]}, "inputs[0].data", {"reason": "wrong_value", "index": 1}),
        ({"datatype": "FP64", "data": [10**400, 1]}, "inputs[0].data", {"reason": "wrong_value", "index": 0}),
        ({"datatype": "BYTES", "data": ["a", 1]}, "inputs[0].data", {"reason": "wrong_value", "index": 1}),
        ({"data": "ab"}, "inputs[0].data", {}),
        ({"data": None}, "inputs[0].data", {}),
        ({"name": ""}, "inputs[0].name", {}),
        ({"parameters": {"shared_memory_region": "r"}}, "inputs[0].parameters.shared_memory_region", {}),
    ],
)
def test_what_is_wrong_with_a_tensor_is_said_with_its_place(
    fields: dict[str, Any], param: str, details: dict[str, Any]
) -> None:
    with pytest.raises(InvalidField) as caught:
        in_json(**fields)
    assert caught.value.param == param
    assert details.items() <= (caught.value.details or {}).items()


@pytest.mark.parametrize(
    ("tail", "fields", "reason"),
    [
        (b"\0" * 7, {"datatype": "FP32"}, "wrong_size"),
        (b"\0" * 8, {"datatype": "FP32", "size": 9}, "truncated"),
        (b"\0" * 9, {"datatype": "FP32", "size": 8}, "wrong_size"),
        (b"\0" * 8, {"datatype": "FP32", "size": 2 << 30, "shape": [1 << 29]}, "truncated"),
        (b"\x05\0\0\0ab\0\0", {"datatype": "BYTES"}, "truncated"),
        (encode_byte_strings([b"a", b"b", b"c"]), {"datatype": "BYTES"}, "wrong_size"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff", {"datatype": "BYTES"}, "truncated"),
    ],
)
def test_bytes_that_are_not_what_is_announced_are_refused(tail: bytes, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidField) as caught:
        in_bytes(tail, **fields)
    assert (caught.value.details or {})["reason"] == reason


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "inputs"),
        ({"inputs": []}, "inputs"),
        ({"inputs": ["x"]}, "inputs[0]"),
        ({"inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [1]}] * 2}, "inputs[1].name"),
        ({"id": 7, "inputs": [{"name": "x", "datatype": "INT8", "shape": [1], "data": [1]}]}, "id"),
        ({"parameters": [], "inputs": []}, "parameters"),
    ],
)
def test_a_body_without_whole_inputs_is_refused(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidField) as caught:
        parse_infer(orjson.dumps(body), "m")
    assert caught.value.param == param


def test_a_body_cannot_say_where_it_is_sent() -> None:
    with pytest.raises(ForbiddenField):
        parse_infer(orjson.dumps({"base_url": "http://elsewhere", "inputs": []}), "m")


def test_the_json_s_length_is_a_number_within_the_body() -> None:
    assert (json_length(None, 10), json_length("4", 10)) == (10, 4)
    for given in ("", "-1", "11", "0", "4.0", "٤", "9" * 5000):
        with pytest.raises(InvalidHeader):
            json_length(given, 10)


def test_outputs_are_asked_for_by_name_and_come_as_bytes_where_that_is_said() -> None:
    tensor = {"name": "x", "datatype": "INT8", "shape": [1], "data": [1]}
    outputs = [{"name": "y"}, {"name": "z", "parameters": {"binary_data": False}}]
    body = {"inputs": [tensor], "outputs": outputs, "parameters": {"binary_data_output": True}, "id": "r-1"}
    call = parse_infer(orjson.dumps(body), "m", "3").tensors
    assert call is not None
    assert [(each.name, each.binary) for each in call.outputs or ()] == [("y", True), ("z", False)]
    assert (call.version, call.id) == ("3", "r-1")


def test_strings_and_parameters_are_text_and_numbers_are_a_blob() -> None:
    tensors = [
        {"name": "who", "datatype": "BYTES", "shape": [2], "data": ["jane@example.com", "x"]},
        {"name": "frame", "datatype": "UINT8", "shape": [2], "data": [1, 2]},
    ]
    body = {"id": "a-b", "inputs": tensors, "parameters": {"note": "call 555"}}
    parts = list(parse_infer(orjson.dumps(body), "m").text_parts())
    texts = {part.path: part.text for part in parts if isinstance(part.text, str)}
    assert texts["inputs[0].data[0]"] == "jane@example.com"
    assert texts["parameters.note"] == "call 555"
    assert texts["id"] == "a-b"
    blobs = [part.path for part in parts if part.text == Uninspectable(UninspectableCause.BLOB)]
    assert blobs == ["inputs[1].data"]


def test_strings_behind_the_json_are_read_and_bytes_that_are_no_text_are_a_blob() -> None:
    parts = list(in_bytes(encode_byte_strings([b"jane@example.com", b"\xff\xd8\xff"]), datatype="BYTES").text_parts())
    assert "jane@example.com" in [part.text for part in parts]
    assert Uninspectable(UninspectableCause.BLOB) in [part.text for part in parts]


def test_a_text_that_is_cut_into_the_elements_of_a_tensor_is_read_as_one() -> None:
    def texts(pieces: list[str]) -> list[Any]:
        tensor = {"name": "x", "datatype": "BYTES", "shape": [len(pieces)], "data": pieces}
        return [part.text for part in parse_infer(orjson.dumps({"inputs": [tensor]}), "m").text_parts()]

    card = "4111 1111 1111 1111"
    assert card in texts(list(card))
    assert card in texts([card[:9], card[9:]])
    assert texts(["a long text " * 4] * 2).count("a long text " * 8) == 0
