"""How requests must be refused: with the right status, in the shape clients read, without giving anything away."""
# ruff: noqa: D103  # the name of a case is the rule that it looks at

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from gateway.cli.conformance.findings import NotApplicable, error_of, expect
from gateway.cli.conformance.wire import Gateway, Reply
from inference_protocol import headers, paths

_BURST = 48
_CANARY = "canary-4f1b92"


def a_body_that_is_no_json_is_a_400(gateway: Gateway) -> None:
    for body in (b"", b"{", b"hello", b'{"model": "m", "messages": NaN}'):
        _is_400(gateway.reply(gateway.sent(body)), repr(body))


def a_body_that_is_no_object_is_a_400(gateway: Gateway) -> None:
    for body in (b"[]", b"null", b'"hello"', b"7"):
        _is_400(gateway.reply(gateway.sent(body)), repr(body))


def a_body_that_is_not_utf8_is_a_400(gateway: Gateway) -> None:
    body = gateway.body(messages=[{"role": "user", "content": "MARK"}]).replace(b"MARK", b"\xff\xfe")
    _is_400(gateway.reply(gateway.sent(body)), "a byte that is no UTF-8")


def a_body_nested_without_end_is_a_4xx(gateway: Gateway) -> None:
    reply = gateway.reply(gateway.sent(b'{"a":' * 100_000 + b"1" + b"}" * 100_000))
    expect(400 <= reply.status < 500, f"it is answered with {reply.status}")


def messages_of_another_type_are_a_400(gateway: Gateway) -> None:
    for messages in ("hi", [1], [], 7, None, ..., [{"role": "user", "content": 5}], [{"content": "hi"}]):
        _is_400(gateway.ask(messages=messages), "no messages" if messages is ... else f"messages {messages!r}")


def numbers_of_another_type_are_a_400_that_names_the_field(gateway: Gateway) -> None:
    wrong: dict[str, Any] = {"temperature": "hot", "max_tokens": -1, "stream": "yes", "top_p": 7, "n": 0}
    for name, value in wrong.items():
        error = _is_400(gateway.ask(**{name: value}), f"{name} {value!r}")
        expect(name in json.dumps(error), f"the refusal of {name} {value!r} does not name it")


def a_model_that_is_not_served_is_a_404(gateway: Gateway) -> None:
    reply = gateway.ask(model="no-such-model-7c1d")
    error_of(reply.status, reply.json())
    expect(reply.status in (400, 404), f"it is answered with {reply.status}")


def an_error_has_the_shape_that_clients_read(gateway: Gateway) -> None:
    reply = gateway.ask(messages="hi")
    error = error_of(reply.status, reply.json())
    kind = reply.field("content-type") or ""
    expect(kind.startswith("application/json"), f"its content-type is {kind!r}")
    for name in ("param", "code"):
        expect(name in error, f"it has no `{name}`")


def an_error_does_not_repeat_what_was_asked(gateway: Gateway) -> None:
    for messages in ([{"role": _CANARY, "content": _CANARY}], _CANARY):
        expect(_CANARY.encode() not in gateway.ask(messages=messages).body, "the prompt stands in it")


def a_request_without_a_key_is_a_401(gateway: Gateway) -> None:
    _needs_key(gateway)
    anonymous = Gateway(gateway.url, None, gateway.model, gateway.patience_s)
    reply = anonymous.ask()
    error_of(reply.status, reply.json())
    expect(reply.status == 401, f"it is answered with {reply.status}")


def a_wrong_key_is_a_401_and_is_not_repeated(gateway: Gateway) -> None:
    _needs_key(gateway)
    reply = Gateway(gateway.url, f"sk-{_CANARY}", gateway.model, gateway.patience_s).ask()
    error_of(reply.status, reply.json())
    expect(reply.status == 401, f"it is answered with {reply.status}")
    expect(_CANARY not in f"{reply.fields}{reply.body!r}", "the key stands in the refusal")


def every_answer_has_a_request_id_of_its_own(gateway: Gateway) -> None:
    replies = {
        "an answer": gateway.ask(),
        "another": gateway.ask(),
        "a stream": gateway.ask(stream=True),
        "a refusal": gateway.ask(messages="hi"),
    }
    ids = {name: reply.field(headers.REQUEST_ID) for name, reply in replies.items()}
    missing = [name for name, found in ids.items() if not found]
    expect(not missing, f"{', '.join(missing)} has no {headers.REQUEST_ID}")
    expect(len(set(ids.values())) == len(ids), "two have the same")


def models_are_listed(gateway: Gateway) -> None:
    reply = gateway.reply(gateway.head("GET", paths.MODELS))
    listed = reply.json()
    expect(reply.status == 200 and listed.get("object") == "list", f"{paths.MODELS} is answered with {reply.status}")
    expect(all(isinstance(each.get("id"), str) for each in listed["data"]), "a model has no `id`")


def a_path_that_does_not_exist_is_a_404(gateway: Gateway) -> None:
    reply = gateway.reply(gateway.head("GET", "/v1/nothing-here"))
    error_of(reply.status, reply.json())
    expect(reply.status == 404, f"it is answered with {reply.status}")


def a_method_that_does_not_fit_is_a_405(gateway: Gateway) -> None:
    for method in ("GET", "DELETE"):
        reply = gateway.reply(gateway.head(method, paths.CHAT_COMPLETIONS))
        expect(reply.status in (404, 405), f"{method} is answered with {reply.status}")


def head_and_options_are_answered_without_a_fault(gateway: Gateway) -> None:
    with gateway.connected() as connection:
        connection.send(gateway.head("HEAD", paths.MODELS))
        head = connection.reply(to_head=True)
        expect(head.status < 500, f"HEAD is answered with {head.status}")
        if (head.field("connection") or "").lower() != "close":
            connection.send(gateway.head("GET", paths.MODELS))
            expect(connection.reply().status < 500, "HEAD is answered with a body")
    options = gateway.reply(gateway.head("OPTIONS", paths.CHAT_COMPLETIONS, "origin: http://conformance.invalid"))
    expect(options.status < 500, f"OPTIONS is answered with {options.status}")
    allowed = options.field("access-control-allow-origin") == "http://conformance.invalid"
    trusts = (options.field("access-control-allow-credentials") or "").lower() == "true"
    expect(not (allowed and trusts), "any web page may call with its reader's credentials")


def who_is_turned_away_is_told_when_to_come_back(gateway: Gateway) -> None:
    with ThreadPoolExecutor(_BURST) as pool:
        replies = [each.result() for each in [pool.submit(gateway.ask, max_tokens=1) for _ in range(_BURST)]]
    odd = {reply.status for reply in replies} - {200, 429, 503}
    expect(not odd, f"of {_BURST} requests at once some are answered with {sorted(odd)}")
    turned_away = [reply for reply in replies if reply.status != 200]
    if not turned_away:
        raise NotApplicable(f"{_BURST} requests at once are all answered")
    for reply in turned_away:
        error_of(reply.status, reply.json())
        expect(bool(reply.field(headers.RETRY_AFTER)), f"a {reply.status} has no {headers.RETRY_AFTER}")


def a_destination_in_a_body_is_never_called(gateway: Gateway) -> None:
    called = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        over = threading.Event()

        def watch() -> None:
            while not over.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                connection.close()
                called.set()

        watching = threading.Thread(target=watch)
        watching.start()
        place = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        try:
            statuses = {name: gateway.ask(**{name: place}).status for name in ("api_base", "base_url", "custom_host")}
        finally:
            over.set()
            watching.join()
    expect(not called.is_set(), "somebody connects to it")
    expect(max(statuses.values()) < 500, f"it is answered with {statuses}")


def _needs_key(gateway: Gateway) -> None:
    if gateway.key is None:
        raise NotApplicable("no key was given (--key)")


def _is_400(reply: Reply, what: str) -> Any:
    expect(reply.status in (400, 422), f"{what} is answered with {reply.status}")
    return error_of(reply.status, reply.json())


CASES = (
    a_body_that_is_no_json_is_a_400,
    a_body_that_is_no_object_is_a_400,
    a_body_that_is_not_utf8_is_a_400,
    a_body_nested_without_end_is_a_4xx,
    messages_of_another_type_are_a_400,
    numbers_of_another_type_are_a_400_that_names_the_field,
    a_model_that_is_not_served_is_a_404,
    an_error_has_the_shape_that_clients_read,
    an_error_does_not_repeat_what_was_asked,
    a_request_without_a_key_is_a_401,
    a_wrong_key_is_a_401_and_is_not_repeated,
    every_answer_has_a_request_id_of_its_own,
    models_are_listed,
    a_path_that_does_not_exist_is_a_404,
    a_method_that_does_not_fit_is_a_405,
    head_and_options_are_answered_without_a_fault,
    a_destination_in_a_body_is_never_called,
    who_is_turned_away_is_told_when_to_come_back,
)
