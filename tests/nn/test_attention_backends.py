"""``torch.nn.attention``'s choice of an algorithm."""

import pytest

import jtorch
from jtorch.nn.attention import SDPBackend, sdpa_kernel
from jtorch.nn.functional import scaled_dot_product_attention as attend


@pytest.fixture
def query():
    return jtorch.arange(24.0).view(1, 2, 3, 4).sin()


@pytest.mark.parametrize(
    "backends", [SDPBackend.MATH, [SDPBackend.FLASH_ATTENTION], [SDPBackend.CUDNN_ATTENTION, SDPBackend.MATH]]
)
def test_attention_is_the_same_inside(query, backends):
    with sdpa_kernel(backends, set_priority=True):
        inside = attend(query, query, query)
        compiled = jtorch.compile(sdpa_kernel(backends)(attend))(query, query, query)
    assert inside.equal(attend(query, query, query))
    assert jtorch.allclose(compiled, inside)


@pytest.mark.parametrize("backends", [SDPBackend.EFFICIENT_ATTENTION, [SDPBackend.CUDNN_ATTENTION], []])
def test_algorithms_for_gpus_alone_are_an_error(backends):
    with pytest.raises(RuntimeError, match=r"No viable backend for scaled_dot_product_attention"):
        sdpa_kernel(backends).__enter__()


def test_what_is_no_backend():
    with pytest.raises(AssertionError, match=r"Backend must be an instance of SDPBackend .*, got str"):
        sdpa_kernel("MATH").__enter__()


def test_members_are_those_of_pytorch():
    torch = pytest.importorskip("torch", reason="compares with PyTorch, which is not installed")
    theirs = torch.nn.attention.SDPBackend.__members__
    assert {name: member.value for name, member in SDPBackend.__members__.items()} == {
        name: int(member) for name, member in theirs.items()
    }
