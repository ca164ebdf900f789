"""torch.ops.attest.attend beside tensors that leave little of the GPU. Runs alone, so that other tests have memory."""
import pytest

from attend_cases import all_equal, attend, tensors, torch

if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

MIB = 2**20
SCRATCH, SPARED, FOR_CUDA = 2048 * MIB, 64 * MIB, 200 * MIB  # CUDA takes some for kernels that run for the first time


def free():
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


def all_but(left):
    """A tensor that leaves so many bytes of the GPU."""
    return torch.empty(free() - left, dtype=torch.uint8, device="cuda")


def test_a_prompt_takes_smaller_steps_where_little_is_free():
    inputs = [x.cuda() for x in tensors(queries=512, tokens=8192, heads=32, kv_heads=8, dim=64, value_dim=64)]
    attend(*(x[:, :, -1:].contiguous() for x in inputs))  # CUDA has started
    before = free()
    taken = all_but(300 * MIB)  # all rows at once take some 460 MiB
    little = attend(*inputs, "topk", 50)
    assert free() >= SPARED / 4
    del taken
    held = before - free()
    assert 32 * MIB <= held <= 300 * MIB
    assert all_equal(attend(*inputs, "topk", 50), little)
    assert held < before - free() <= SCRATCH + FOR_CUDA


def test_one_group_of_rows_may_take_more_and_else_says_what_it_lacks():
    inputs = [x.cuda() for x in tensors(tokens=4_000_000, heads=64, kv_heads=1, dim=16, value_dim=16)]
    small = [x.cuda() for x in tensors()]
    right = attend(*small, "topk", 50)
    taken = all_but(100 * MIB)  # and what a test before has left to the operator, 2 GiB
    with pytest.raises(RuntimeError, match=r"^scratch memory on the GPU: \d+ MiB more are needed, \d+ MiB are free, of "
                                           r"which 64 MiB are left to others"):
        attend(*inputs, "topk", 50)
    assert all_equal(attend(*small, "topk", 50), right)  # the next call works
    del taken
    free()
    out, lse, kept = attend(*inputs, "topk", 50)
    assert out.isfinite().all() and lse.isfinite().all() and 50 <= kept.item() <= 64 * 50
