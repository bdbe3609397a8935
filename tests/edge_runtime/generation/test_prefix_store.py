import os

import numpy as np
import pytest

from edge_runtime.generation.prefix_store import BLOCK, BlockShape, PrefixStore

SHAPE = BlockShape(layers=2, heads=2, head_size=16, dtype=np.dtype(np.float32))


@pytest.fixture
def store(tmp_path):
    opened = []

    def open_store(digest="model", blocks=100, shape=SHAPE):
        most_bytes = blocks * (shape.nbytes + 32)
        opened.append(PrefixStore(tmp_path / "prefixes", digest=digest, shape=shape, most_bytes=most_bytes))
        return opened[-1]

    yield open_store
    for each in opened:
        each.close()


def cells(begin, end):
    values = np.zeros((2, 2, 2, end - begin, 16), np.float32)
    values += np.arange(begin, end, dtype=np.float32)[:, None]
    return values


def files(tmp_path):
    return sorted((tmp_path / "prefixes").glob("*.kv"))


PROMPT = tuple(range(3 * BLOCK + 5))


def test_a_prompt_is_found_after_a_restart_block_by_block(store):
    first = store()
    first.keep("salt", PROMPT, cells)
    first.close()
    again = store()
    for begin in range(0, 3 * BLOCK, BLOCK):
        assert np.array_equal(again.find("salt", PROMPT, begin), cells(begin, begin + BLOCK))
    assert again.find("salt", PROMPT, 3 * BLOCK) is None
    assert again.find("salt", PROMPT, 5) is None


def test_two_tokens_are_always_left_to_be_read(store):
    kept = store()
    kept.keep("", PROMPT[: 2 * BLOCK], cells)
    kept.close()
    assert store().find("", PROMPT[: 2 * BLOCK], BLOCK) is None
    assert store().find("", PROMPT[: 2 * BLOCK + 1], BLOCK) is None
    assert store().find("", PROMPT[: 2 * BLOCK + 2], BLOCK) is not None


def test_nothing_is_found_under_another_salt_model_or_beginning(store):
    kept = store()
    kept.keep("salt", PROMPT, cells)
    kept.close()
    assert store().find("other", PROMPT, 0) is None
    assert store("another model").find("salt", PROMPT, 0) is None
    assert store().find("salt", (7, *PROMPT[1:]), BLOCK) is None
    assert store().find("salt", PROMPT, BLOCK) is not None


@pytest.mark.parametrize("damage", ["a bit", "cut", "empty"])
def test_a_damaged_block_is_thrown_away(store, tmp_path, damage):
    kept = store()
    kept.keep("", PROMPT[: BLOCK + 2], cells)
    kept.close()
    [path] = files(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[100] ^= 1
    path.write_bytes({"a bit": raw, "cut": raw[:500], "empty": b""}[damage])
    assert store().find("", PROMPT, 0) is None
    assert not path.exists()


def test_the_least_recently_used_go_first(store, tmp_path):
    prompts = [tuple(range(at, at + BLOCK + 2)) for at in range(3)]
    for at, prompt in enumerate(prompts):
        kept = store(blocks=2)
        if at == 2:
            for path in files(tmp_path):
                os.utime(path, (1, 1))
            kept.find("", prompts[0], 0)  # is a use
        kept.keep("", prompt, cells)
        kept.close()
    again = store(blocks=2)
    assert [again.find("", prompt, 0) is not None for prompt in prompts] == [True, False, True]


def test_files_are_for_this_user_alone_and_tell_nothing_by_their_names(store, tmp_path):
    kept = store()
    kept.keep("salt", PROMPT, cells)
    kept.close()
    folder = tmp_path / "prefixes"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    before = {path.name for path in files(tmp_path)}
    for path in folder.iterdir():
        path.unlink()
    other = store()  # another folder's key gives the same prompt other names
    other.keep("salt", PROMPT, cells)
    other.close()
    assert not before & {path.name for path in files(tmp_path)}


def test_only_what_may_be_kept_is_written_and_restored_with_the_same_answer(bench, job, tmp_path, store):
    shape = BlockShape(layers=2, heads=2, head_size=16, dtype=np.dtype(np.float32))
    prompt = [token % 60 for token in range(3 * BLOCK)]
    house = bench("writes", prefixes=store(shape=shape))
    secret = house.add(job(prompt[::-1]))
    asked = house.add(job(prompt, may_be_kept=True))
    house.finish()
    house.scheduler.close()
    assert len(files(tmp_path)) == 3
    after = bench("restarted", prefixes=store(shape=shape))
    again, not_kept = after.add(job(prompt)), after.add(job(prompt[::-1]))
    after.finish()
    assert again.cached == 2 * BLOCK
    assert not_kept.cached == 0
    assert after.said[again] == house.said[asked]
    assert after.said[not_kept] == house.said[secret]
    assert [step.kind for step in after.scheduler.steps][:3] == ["restore", "restore", "read"]
