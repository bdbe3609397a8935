from __future__ import annotations

import pytest

from inference_protocol.errors import InvalidField
from runtime_server import chat_template
from runtime_server.bounded_jinja import TemplateTooSlow
from runtime_server.chat_template import ChatTemplate, TemplateUnusable
from tests.runtime_server.conftest import TEMPLATE

HELLO = [{"role": "user", "content": "hello"}]


def test_developer_renders_as_system_where_the_template_lacks_the_role() -> None:
    messages = [{"role": "developer", "content": "x"}]
    assert "<|im_start|>system\nx" in ChatTemplate(TEMPLATE, {}).render(messages)
    knowing = "{% if messages[0].role == 'developer' %}D{% endif %}"
    assert ChatTemplate(knowing, {}).render(messages) == "D"


def test_special_tokens_are_named_in_the_template() -> None:
    assert ChatTemplate("{{ bos_token }}{{ messages[0].content }}", {"bos_token": "<s>"}).render(HELLO) == "<s>hello"


def test_blocks_leave_no_white_space() -> None:
    source = "{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\n"
    assert ChatTemplate(source, {}).render(HELLO) == "hello\n"


def test_loop_controls_and_tojson_work_as_in_hugging_faces() -> None:
    source = "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m | tojson }}{% endfor %}"
    rendered = ChatTemplate(source, {}).render([{"role": "user", "content": "<é>"}, *HELLO])
    assert rendered == '{"role": "user", "content": "<é>"}'


def test_a_refusal_of_the_template_reaches_the_caller_when_it_holds_nothing_of_theirs() -> None:
    with pytest.raises(InvalidField, match="Roles must alternate"):
        ChatTemplate("{{ raise_exception('Roles must alternate') }}", {}).render(HELLO)
    with pytest.raises(InvalidField) as caught:
        ChatTemplate("{{ raise_exception('Bad: ' ~ messages[0].content) }}", {}).render(HELLO)
    assert "hello" not in caught.value.message


@pytest.mark.parametrize(
    "expression",
    [
        "messages[0].content + 1",
        "messages[9].content.x",
        "1 // 0",
        "messages | first | int + none",
        "''.__class__.mro()",
    ],
)
def test_a_template_that_breaks_on_the_messages_is_the_requests_fault_and_no_crash(expression: str) -> None:
    with pytest.raises(InvalidField):
        ChatTemplate("{{ " + expression + " }}", {}).render(HELLO)


@pytest.mark.parametrize("expression", ["messages.append(1)", "messages[0].update(role='system')"])
def test_a_template_cannot_change_the_messages(expression: str) -> None:
    with pytest.raises(InvalidField):
        ChatTemplate("{{ " + expression + " }}", {}).render(HELLO)
    assert HELLO == [{"role": "user", "content": "hello"}]


def test_what_a_template_writes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MAX_RENDERED_CHARS", 1000)
    with pytest.raises(InvalidField, match="1000 characters"):
        ChatTemplate("{% for _ in range(99999) %}{{ messages[0].content }}{% endfor %}", {}).render(HELLO)


def test_a_template_that_does_not_compile_is_named_by_its_line() -> None:
    with pytest.raises(TemplateUnusable, match="line 2"):
        ChatTemplate("\n{% for %}", {})


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for m in messages recursive %}{% if loop.depth < 60 %}{{ loop(messages) }}{{ loop(messages) }}{% endif %}"
        "{% endfor %}",
        "{% for a in range(99999) %}{{ range(99999) | list | length }}{% endfor %}",
    ],
)
def test_a_template_that_never_ends_is_ended(source: str) -> None:
    with pytest.raises(TemplateTooSlow):
        ChatTemplate(source, {}).render(HELLO, patience_s=0.05)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 999999999 }}",
        "{{ 2 ** 999999999 }}",
        "{{ [1] * 999999999 }}",
        "{{ 'x'.ljust(999999999) }}",
        "{{ 'x' | center(999999999) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ '{:999999999}'.format(1) }}",
        "{{ '%999999999d' | format(1) }}",
        "{% set ns = namespace(s='x' * 1000) %}{% for _ in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
        "{% set ns = namespace(s='x' * 1000) %}{% for _ in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
        "{% set ns = namespace(s='x') %}{% for _ in range(60) %}{% set ns.s = [ns.s, ns.s] | join %}{% endfor %}",
        "{% set ns = namespace(s='xx') %}{% for _ in range(60) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}",
    ],
)
def test_a_template_cannot_fill_the_memory(source: str) -> None:
    with pytest.raises(InvalidField):
        ChatTemplate(source, {}).render(HELLO)


def test_bounds_change_nothing_of_what_templates_write() -> None:
    source = (
        "{% for m in messages %}{{ loop.index ~ '/' ~ loop.length }}{{ loop.first }}{{ loop.last }}"
        "{{ '%s' % m.content }}{{ 'ab' * 2 }}{{ 3 % 2 }}{{ m.content + '!' }}{% endfor %}"
    )
    assert ChatTemplate(source, {}).render([*HELLO, *HELLO]) == (
        "1/2TrueFalsehelloabab1hello!2/2FalseTruehelloabab1hello!"
    )
