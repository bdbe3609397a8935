"""Comparing a request's tensors with what its model takes and gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from inference_protocol.open_inference.call import TensorCall, WantedOutput
from inference_protocol.open_inference.datatypes import Datatype
from inference_protocol.open_inference.faults import TensorFault, fault
from inference_protocol.open_inference.tensors import Heading
from runtime_server.tensors.model import TensorSpec


def check_inputs(headings: Sequence[Heading], specs: Sequence[TensorSpec], axes: Mapping[str, int]) -> int:
    """Look whether these are the model's inputs, and return how many rows they have; 1 where the model has no rows.

    Args:
        headings: Of the request's inputs.
        specs: Of the model's.
        axes: By tensor, the axis of its rows.

    Raises:
        InvalidField: They are not; `details` say what was expected.
    """
    known = {spec.name: spec for spec in specs}
    for heading in headings:
        if heading.name not in known:
            raise fault(
                TensorFault.UNKNOWN_TENSOR,
                f"The model has no input of the name of `{heading.at}`. It has: {', '.join(known)}.",
                param=f"{heading.at}.name",
                expected=list(known),
            )
    given = {heading.name: heading for heading in headings}
    rows: int | None = None
    for spec in specs:
        heading_of = given.get(spec.name)
        if heading_of is None:
            raise fault(
                TensorFault.MISSING_TENSOR,
                f"The model's input `{spec.name}` is missing.",
                param="inputs",
                name=spec.name,
                expected=list(known),
                expected_shape=shown_shape(spec),
            )
        _check_one(heading_of, spec)
        if spec.name in axes:
            rows = _rows(heading_of, spec, axes[spec.name], rows)
    return 1 if rows is None else rows


def wanted_outputs(call: TensorCall, specs: Sequence[TensorSpec]) -> Sequence[tuple[TensorSpec, bool]]:
    """Return the outputs that are asked for, and whether each goes as bytes.

    Raises:
        InvalidField: There is no such output, or it cannot go as is asked.
    """
    known = {spec.name: spec for spec in specs}
    asked = call.outputs or [WantedOutput(spec.name, call.binary_outputs) for spec in specs]
    found: list[tuple[TensorSpec, bool]] = []
    for at, wanted in enumerate(asked):
        spec = known.get(wanted.name)
        if spec is None:
            raise fault(
                TensorFault.UNKNOWN_TENSOR,
                f"The model has no output of the name of `outputs[{at}]`. It has: {', '.join(known)}.",
                param=f"outputs[{at}].name",
                expected=list(known),
            )
        if spec.datatype is Datatype.FP16 and not wanted.binary:
            raise fault(
                TensorFault.NOT_IN_JSON,
                f"The output `{spec.name}` is FP16, which goes as bytes only: ask for it with `binary_data`.",
                param=f"outputs[{at}]",
                name=spec.name,
            )
        found.append((spec, wanted.binary))
    return found


def shown_shape(spec: TensorSpec) -> list[int]:
    """Return a shape as the protocol shows it: -1 stands for any length."""
    return [-1 if each is None else each for each in spec.shape]


def _check_one(heading: Heading, spec: TensorSpec) -> None:
    if heading.datatype is not spec.datatype:
        raise fault(
            TensorFault.WRONG_DATATYPE,
            f"`{heading.at}` is {heading.datatype} where the model's `{spec.name}` is {spec.datatype}.",
            param=f"{heading.at}.datatype",
            name=spec.name,
            expected=spec.datatype.value,
        )
    fits = len(heading.shape) == len(spec.shape) and all(
        own in (None, length) for own, length in zip(spec.shape, heading.shape, strict=True)
    )
    if not fits:
        raise _misshapen(heading, spec, spec.shape)


def _rows(heading: Heading, spec: TensorSpec, axis: int, rows: int | None) -> int:
    found = heading.shape[axis]
    if found == 0:
        raise fault(
            TensorFault.EMPTY_BATCH,
            f"`{heading.at}` has no rows: its axis {axis} has the length 0.",
            param=f"{heading.at}.shape",
            name=spec.name,
            index=axis,
            expected_shape=shown_shape(spec),
        )
    if rows not in (None, found):
        shape = tuple(rows if at == axis else length for at, length in enumerate(heading.shape))
        raise _misshapen(heading, spec, shape)
    return found


def _misshapen(heading: Heading, spec: TensorSpec, expected: Sequence[int | None]) -> Exception:
    shown = [-1 if each is None else each for each in expected]
    return fault(
        TensorFault.WRONG_SHAPE,
        f"`{heading.at}` has the shape {list(heading.shape)} where the model's `{spec.name}` takes {shown}.",
        param=f"{heading.at}.shape",
        name=spec.name,
        expected_shape=shown,
    )
