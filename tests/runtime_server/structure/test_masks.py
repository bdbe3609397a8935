from __future__ import annotations

import numpy as np

from inference_protocol.structure import Structure, StructureKind
from runtime_server.structure.compiler import GrammarCompiler
from runtime_server.structure.constraint import Masks
from runtime_server.structure.grammar import grammar_of
from tests.runtime_server.conftest import train_tokenizer

TOKENIZER = train_tokenizer()
END = TOKENIZER.token_to_id("<|im_end|>")


async def test_forms_side_by_side_allow_what_each_allows_alone_and_no_token_beyond_the_tokenizers() -> None:
    compiler = GrammarCompiler(TOKENIZER.to_str, [END])
    forms = [Structure(StructureKind.CHOICE, (word,), "f") for word in ("hello", "world")]
    forms.append(Structure(StructureKind.REGEX, "[a-z]+", "f"))
    constraints = [await compiler.constraint(grammar_of(form)) for form in forms]
    vocabulary = TOKENIZER.get_vocab_size()
    together = Masks().of(constraints, vocabulary + 7).copy()
    alone = Masks()
    for row, constraint in zip(together, constraints, strict=True):
        np.testing.assert_array_equal(row[:vocabulary], alone.of([constraint], vocabulary)[0])
        assert not row[vocabulary:].any()
        assert not row[END]
    assert {TOKENIZER.id_to_token(token)[0] for token in np.flatnonzero(together[0])} == {"h"}


async def test_the_end_is_allowed_once_the_form_may_be_complete_and_said_when_it_must_be() -> None:
    compiler = GrammarCompiler(TOKENIZER.to_str, [END])
    form = await compiler.constraint(grammar_of(Structure(StructureKind.REGEX, "a|ab", "f")))
    masks = Masks()
    [first, second] = (TOKENIZER.token_to_id(char) for char in "ab")
    form.accept(first)
    assert masks.of([form], TOKENIZER.get_vocab_size())[0][END]
    assert not form.is_complete
    form.accept(second)
    assert form.is_complete
