import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from edge_runtime.build.errors import NotImportable
from edge_runtime.build.gguf.blocks import Blocks, concatenate, read_matrix
from edge_runtime.build.gguf.source import Tensor

BLOCKS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]
FLOATS = ["F16", "BF16", "F32"]


def random_blocks(kind: GGMLQuantizationType, rows: int = 9, columns: int = 1024, seed: int = 3) -> Tensor:
    """Random bits, in which only the float16 scales and minima are kept finite."""
    random = np.random.default_rng(seed)
    weights, size = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (rows, columns // weights, size), dtype=np.uint8)
    halves = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}.get(kind.name, [0])
    for at in halves:
        raw[..., at : at + 2] = random.standard_normal((rows, columns // weights, 1)).astype(np.float16).view(np.uint8)
    return Tensor("w", kind, (rows, columns), raw.reshape(rows, -1))


@pytest.mark.parametrize("name", BLOCKS)
def test_every_weight_is_the_files_own_but_for_the_rounding_of_one_addition(name: str) -> None:
    tensor = random_blocks(GGMLQuantizationType[name])
    matrix = read_matrix(tensor)
    assert isinstance(matrix, Blocks)
    expected = gguf.dequantize(tensor.data, tensor.kind)
    largest = np.abs(matrix.scales) * matrix.zero
    if matrix.offsets is None:
        np.testing.assert_array_equal(matrix.values(), expected)
    else:
        bound = np.repeat(largest + np.abs(matrix.offsets), matrix.codes.shape[2], axis=1) * 2.0**-23
        assert (np.abs(matrix.values() - expected) <= bound).all()
    assert (matrix.offsets is None) == (name in ("Q4_0", "Q5_0", "Q8_0", "Q6_K"))
    assert matrix.bits == (4 if name.startswith("Q4") else 8)


@pytest.mark.parametrize("name", FLOATS)
def test_types_without_blocks_become_the_same_numbers_in_float32(name: str) -> None:
    kind = GGMLQuantizationType[name]
    data = gguf.quantize(np.random.default_rng(5).standard_normal((4, 64)).astype(np.float32), kind)
    np.testing.assert_array_equal(read_matrix(Tensor("w", kind, (4, 64), data)), gguf.dequantize(data, kind))


def test_of_two_codes_in_a_byte_the_first_is_low() -> None:
    blocks = Blocks(4, np.arange(16, dtype=np.uint8).reshape(1, 1, 16), np.ones((1, 1), np.float32), None)
    assert blocks.packed().tolist() == [[[0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]]]


def test_matrices_become_one_only_where_their_blocks_are_alike() -> None:
    plain, offset, wide = (read_matrix(random_blocks(GGMLQuantizationType[name])) for name in ("Q4_0", "Q4_K", "Q6_K"))
    both = concatenate([plain, offset])
    assert isinstance(both, Blocks)
    assert isinstance(plain, Blocks)
    assert isinstance(offset, Blocks)
    np.testing.assert_array_equal(both.values(), np.concatenate([plain.values(), offset.values()]))
    assert concatenate([plain, wide]) is None
    assert concatenate([plain, np.zeros((2, 1024), np.float32)]) is None


@pytest.mark.parametrize("name", ["IQ2_XXS", "Q2_K", "IQ4_NL", "TQ1_0"])
def test_other_types_are_refused_with_the_tensors_name(name: str) -> None:
    tensor = Tensor("blk.7.ffn_up.weight", GGMLQuantizationType[name], (1, 256), np.zeros((1, 66), np.uint8))
    with pytest.raises(NotImportable, match=rf"`blk\.7\.ffn_up\.weight` is {name}; supported are Q4_0, Q4_1"):
        read_matrix(tensor)
