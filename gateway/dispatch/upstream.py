"""Reading one target's answer up to the point where it commits, and past it, frame by frame.

Content decides: role-only chunks, comments and pings are held back, so that a target which fails before it has said
anything can still be replaced by another without the caller seeing a seam.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson

from gateway.answer import AnswerFacts
from gateway.dispatch.content_encoding import decoded
from gateway.dispatch.refusals import refused
from inference_protocol import sse
from inference_protocol.errors import TidegateError, UpstreamCut, UpstreamProtocol
from inference_protocol.json_body import splice
from inference_protocol.openai_stream import chunk_facts
from inference_protocol.sse import SseDecoder, SseFrame

_END = SseFrame(sse.encode_data(sse.DONE), sse.DONE)
_MAX_HELD_FRAMES = 256
_MAX_UNREADABLE_FRAMES = 8


class UpstreamStream:
    """A streamed answer of one target."""

    def __init__(
        self,
        response: httpx.Response,
        *,
        wants_usage: bool,
        public_model: str,
    ) -> None:
        """Wrap a response whose head said 200.

        Args:
            response: Its body has not been touched.
            wants_usage: Whether the caller asked for the usage frame; without, it is read and dropped.
            public_model: The name that the caller knows the model by.
        """
        self.facts = AnswerFacts()
        self._response = response
        self._chunks = decoded(response)
        self._decoder = SseDecoder()
        self._wants_usage = wants_usage
        self._public_model = public_model
        self._held: list[bytes] = []
        self._done = False
        self._usage_shown = False
        self._usage_taken_out: dict[str, Any] | None = None

    async def until_content(self) -> None:
        """Read until the answer commits, holding back what came before.

        Raises:
            UpstreamCut: The stream ended first.
            UpstreamRefused: The target sent an error event first.
            UpstreamProtocol: What it sent is not the protocol's.
        """
        committed = False
        while not committed:
            frames = await self._next_frames()
            for frame in frames or ():
                committed = self._take(frame, self._held) or committed
            if not committed and (frames is None or self._done):
                raise UpstreamCut("The target's answer ended before it held any content.")
            if not committed and len(self._held) > _MAX_HELD_FRAMES:
                raise UpstreamProtocol("The target sent frame after frame without content.")

    async def relay(self) -> AsyncIterator[bytes]:
        """Yield the bytes to send on, the held ones first, and end after `[DONE]`.

        Raises:
            UpstreamCut: The stream ended without `[DONE]`.
            UpstreamRefused: The target sent an error event.
            UpstreamProtocol: What it sent is not the protocol's.
        """
        out, self._held = self._held, []
        while True:
            if out:
                yield b"".join(out)
            if self._done:
                return
            frames = await self._next_frames()
            out = []
            if frames is None:
                if self.facts.finish_reason is None:
                    raise UpstreamCut("The target's answer ended in the middle.")
                frames = [_END]  # some servers leave out the closing mark; the answer is complete all the same
            try:
                for frame in frames:
                    self._take(frame, out)
            except TidegateError:
                if out:
                    yield b"".join(out)
                raise

    async def aclose(self) -> None:
        """Let the connection go; before the end of the answer this is what tells the target to stop."""
        await self._response.aclose()

    async def _next_frames(self) -> list[SseFrame] | None:
        """Return the frames the next bytes complete, or `None` at the end."""
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            return self._decoder.close() or None
        except httpx.TransportError as exc:
            raise UpstreamCut(f"The connection to the target ended in the middle ({type(exc).__name__}).") from None
        return self._decoder.feed(chunk)

    def _take(self, frame: SseFrame, out: list[bytes]) -> bool:
        """Append what the caller shall see of a frame; return whether it commits the answer."""
        if self._done:
            return False  # whatever comes after the end is none of the caller's
        if frame.is_done:
            self._done = True
            out.extend(self._usage_left())
            out.append(_END.raw)
            return False
        if frame.data is None:
            out.append(frame.raw)
            return False
        try:
            chunk = parse_answer(frame.data)
        except UpstreamProtocol:
            self.facts.unreadable += 1  # one garbled frame is left out; many are no stream any more
            if self.facts.unreadable > _MAX_UNREADABLE_FRAMES:
                raise
            return False
        self.facts.frames += 1
        facts = chunk_facts(chunk)
        if facts.error is not None:
            raise refused(facts.error, self._response, status=None)
        self.facts.add(facts)
        if not facts.usage_only:
            out.append(self._shown(frame, chunk))
        elif self._wants_usage and not self._usage_shown:
            self._usage_shown = True
            out.append(self._shown(frame, chunk))
        return facts.content

    def _shown(self, frame: SseFrame, chunk: dict[str, Any]) -> bytes:
        """A frame as the caller is to see it: untouched where it is so already."""
        changed: dict[str, bytes | None] = {}
        if chunk.get("model") not in (None, self._public_model):
            changed["model"] = orjson.dumps(self._public_model)
        if "usage" in chunk and chunk.get("choices"):
            # Counts have an event of their own, for callers who asked; `null` is how it is announced to those.
            if chunk["usage"] is not None:
                self._usage_taken_out = chunk
            if chunk["usage"] is not None or not self._wants_usage:
                changed["usage"] = None
        if not changed or frame.data is None:
            return frame.raw
        return sse.encode_data(splice(frame.data.replace(b"\n", b" "), chunk, changed))

    def _usage_left(self) -> list[bytes]:
        """The event with the counts, where the caller asked for it and the target put them elsewhere."""
        chunk = self._usage_taken_out
        if chunk is None or not self._wants_usage or self._usage_shown:
            return []
        envelope: dict[str, Any] = {key: chunk[key] for key in ("id", "object", "created") if key in chunk}
        own: dict[str, Any] = {**envelope, "model": self._public_model, "choices": [], "usage": chunk["usage"]}
        return [sse.encode_data(orjson.dumps(own))]


def parse_answer(data: bytes) -> dict[str, Any]:
    """Parse one JSON document of a target's answer.

    Raises:
        UpstreamProtocol: It is not a JSON object.
    """
    try:
        parsed = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise UpstreamProtocol("The target's answer is not JSON.") from None
    if not isinstance(parsed, dict):
        raise UpstreamProtocol("The target's answer is not a JSON object.")
    return parsed
