"""Whatever comes as a key set, a token or an HTTP request is read or refused, and the gateway goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.access.key_set import KeySet, KeySetUnreadable
from gateway.access.tokens import TokenRefused
from tests.gateway.access.test_smuggling import AMBIGUOUS, BODY, LENGTH, framed
from tests.gateway.access.test_tokens import PROVIDER, tokens
from tests.gateway.conftest import HouseFactory
from tests.support.identity_provider import base64url
from tests.support.raw_http import exchanged

NAMES = st.sampled_from(["kty", "kid", "alg", "use", "key_ops", "n", "e", "x", "y", "crv", "d", "k", "x5c"])
WORDS = st.sampled_from(["RSA", "EC", "OKP", "oct", "ES256", "RS256", "none", "P-256", "sig", "AQAB", "first"])
VALUES = st.one_of(WORDS, st.text(max_size=6), st.integers(), st.none(), st.booleans(), st.lists(WORDS, max_size=2))
GOOD = PROVIDER.keys[0].jwk


@settings(max_examples=150)
@given(raw=st.binary(max_size=60), keys=st.lists(st.dictionaries(NAMES, VALUES, max_size=6) | VALUES, max_size=3))
def test_any_set_of_keys_is_read_or_refused(raw: bytes, keys: list[Any]) -> None:
    for document in (raw, json.dumps({"keys": keys}).encode(), json.dumps(keys).encode()):
        with contextlib.suppress(KeySetUnreadable):
            KeySet.parse(document, ["ES256", "RS256"])
    # Bad keys beside a good one shut nobody out.
    mixed = [each for each in keys if not (isinstance(each, dict) and each.get("kid") == "first")]
    found = KeySet.parse(json.dumps({"keys": [*mixed, GOOD]}).encode(), ["ES256"])
    assert found.find("first", "ES256") is not None


HEADS = st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "jwk", "jku", "b64", "cty"]), VALUES, max_size=4)
CLAIMS = st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "jti"]), VALUES, max_size=6)


def test_any_token_is_refused_in_our_words(tmp_path: Path) -> None:
    checks = tokens(PROVIDER, tmp_path)

    @settings(max_examples=150)
    @given(
        head=HEADS, claims=CLAIMS, tail=st.binary(max_size=70), text=st.text(max_size=60), at=st.integers(0, 300)
    )  # fmt: skip
    def refuses(head: dict[str, Any], claims: dict[str, Any], tail: bytes, text: str, at: int) -> None:
        made = [base64url(json.dumps(each).encode()) for each in (head, {"iss": PROVIDER.issuer, **claims})]
        good = PROVIDER.token()
        broken = f"{good[:at]}{text[:1]}{good[at + 1 :]}"
        for token in (".".join([*made, base64url(tail)]), text, f"eyJ{text}.{text}.{text}", broken):
            if token != good:
                with contextlib.suppress(TokenRefused):
                    # What base64 does not tell apart is the same token.
                    assert asyncio.run(checks.check(token)).id == "corp:ada"
                    assert token.rpartition(".")[0] == good.rpartition(".")[0]

    refuses()


async def test_requests_that_are_damaged_anywhere_are_answered_or_cut_and_the_gateway_goes_on(
    house: HouseFactory,
) -> None:
    draw = random.Random(7)
    seeds = [framed(LENGTH, "content-type: application/json", body=BODY), *AMBIGUOUS.values()]
    async with house() as h:

        async def send() -> None:
            data = bytearray(draw.choice(seeds))
            for _ in range(draw.randint(1, 4)):
                at = draw.randrange(len(data))
                match draw.randrange(4):
                    case 0:
                        data[at] = draw.randrange(256)
                    case 1:
                        del data[at : at + draw.randint(1, 9)]
                    case 2:
                        data[at:at] = draw.choice([b"\r\n", b"\n", b"\0", b" ", b":", b"\xff", b"0", b"a" * 300])
                    case _:
                        data[at:at] = data[: draw.randint(1, 60)]
            # The end is said, so that nobody waits for what will not come.
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(2):
                    answer = await exchanged(h.gateway.url, bytes(data), end=True)
                    assert not answer or answer.startswith(b"HTTP/1.1 "), answer[:80]
                    assert b" 500 " not in answer[:20]

        for _ in range(6):
            await asyncio.gather(*(send() for _ in range(40)))
        assert (await h.gateway.chat()).status_code == 200
        assert "internal_error" not in {outcome["outcome"] for outcome in h.outcomes()}
