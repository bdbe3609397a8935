"""The root of the errors: how each of them is told. Their tree is in `inference_protocol/errors.py`."""

from __future__ import annotations

from typing import Any, ClassVar


class TidegateError(Exception):
    """The root. Subclasses set the class attributes; instances add what the caller needs to mend the request."""

    code: ClassVar[str]
    http_status: ClassVar[int]
    openai_type: ClassVar[str]
    retryable: ClassVar[bool] = False
    # `details.reason`, and the wait that callers are told, of errors that do not say another.
    reason: ClassVar[str | None] = None
    usual_retry_after_s: ClassVar[float | None] = None

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
        details: dict[str, Any] | None = None,
    ) -> None:
        """Build an error.

        Args:
            message: One sentence for the caller: what is wrong and how to mend it.
            param: The field or header at fault.
            retry_after_s: Seconds after which trying again may help.
            details: Machine-readable facts, such as the reason each target was excluded.
        """
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = self.usual_retry_after_s if retry_after_s is None else retry_after_s
        self.details = details if self.reason is None else {"reason": self.reason, **(details or {})}

    @property
    def error_type(self) -> str:
        """The OpenTelemetry `error.type`: low cardinality, the same word as `code`."""
        return self.code

    def to_openai(self, request_id: str | None) -> dict[str, Any]:
        """Return the body OpenAI clients expect, with the request id beside the message."""
        error: dict[str, Any] = {
            "message": self.message,
            "type": self.openai_type,
            "param": self.param,
            "code": self.code,
        }
        if request_id is not None:
            error["request_id"] = request_id
        if self.details is not None:
            error["details"] = self.details
        return {"error": error}

    def to_open_inference(self, request_id: str | None) -> dict[str, Any]:
        """Return the body that clients of the Open Inference Protocol expect: a sentence, and the rest beside it."""
        rest = self.to_openai(request_id)["error"]
        return {"error": rest.pop("message"), **rest}
