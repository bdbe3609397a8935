"""A target may close a kept-alive connection just as a request goes out on it: that request is asked again, once."""

from __future__ import annotations

from tests.gateway.conftest import HouseFactory
from tests.support.scripted_runtime import Received, ScriptedRuntime, says

RESTRICTED = {"x-data-class": "restricted"}  # only the edge may answer


class Closes:
    """Answers, but closes the connection instead at the requests of these numbers."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = numbers
        self._seen = 0

    async def __call__(self, request: Received) -> None:
        self._seen += 1
        if self._seen in self._numbers:
            request.writer.close()
        else:
            await says("fine")(request)


async def test_a_request_that_met_a_stale_connection_is_asked_again_and_nobody_notices(house: HouseFactory) -> None:
    async with house(edge=ScriptedRuntime(Closes(2))) as h:
        for _ in range(2):
            assert (await h.gateway.chat(headers=RESTRICTED)).status_code == 200
        assert len(h.edge.posts) == 3
        assert h.edge.posts[1].body == h.edge.posts[2].body
        assert [len(each["attempts"]) for each in await h.until_settled(2)] == [1, 1], "it is one attempt"


async def test_a_new_connection_that_is_closed_is_no_stale_one(house: HouseFactory) -> None:
    async with house(edge=ScriptedRuntime(Closes(1))) as h:
        response = await h.gateway.chat(headers=RESTRICTED)
        assert (response.status_code, response.json()["error"]["code"]) == (502, "upstream_cut")
        assert len(h.edge.posts) == 1, "the target may have worked on it"
        assert not h.cloud.posts
