"""Loads the operator library, and computes attention in float64 by torch alone, to compare with."""
import json
import struct
from pathlib import Path

import pytest

from attest_program import ATTEST

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
LIBRARY = Path(ATTEST).parent / "libattest_torch_ops.so"
if not LIBRARY.exists():
    pytest.skip("this build has no operator library", allow_module_level=True)
torch.ops.load_library(str(LIBRARY))
SCALE = 0.5


def attend(q, k, v, selector="exact", setting=0.0, *, layer=3, scale=SCALE, softcap=0.0, window=0, sinks=None,
           values_in_keys=False):
    return torch.ops.attest.attend(q, k, v, selector, setting, layer, scale, softcap, window, sinks, values_in_keys)


def tensors(heads=4, kv_heads=2, queries=1, tokens=300, dim=32, value_dim=32, batch=1, dtype=torch.bfloat16, seed=0):
    """q, k and v [batch, heads, tokens, dim]; every number is a bfloat16, so that all types hold it."""
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(batch, h, t, d, generator=generator) for h, t, d in
            ((heads, queries, dim), (kv_heads, tokens, dim), (kv_heads, tokens, value_dim))]
    return [m.bfloat16().to(dtype) for m in made]


def scales_file(path, scales):
    """A safetensors file at `path` with the k_scale numbers of each layer, {layer: [numbers]}."""
    tensors, end = {}, 0
    for layer, numbers in scales.items():
        begin, end = end, end + 4 * len(numbers)
        tensors[f"layers.{layer}.k_scale"] = {"dtype": "F32", "shape": [len(numbers)], "data_offsets": [begin, end]}
    header = json.dumps(tensors).encode()
    numbers = [number for of_layer in scales.values() for number in of_layer]
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(numbers)}f", *numbers))
    return path


def refuses_options_of_other_layers(folder, q, k, v):
    """Options that do not fit layer 3 or its two KV heads are refused."""
    stored = "kv_cache:k=fp8_e4m3,k_scale=file,scales_file="
    with pytest.raises(ValueError, match="has no tensor layers.3.*k_scale, expected the scale of layer 3"):
        attend(q, k, v, f"{stored}{scales_file(folder / 'other.safetensors', {0: [0.5]})}")
    with pytest.raises(ValueError, match="layers.3.*k_scale has 3 numbers, expected one"):
        attend(q, k, v, f"{stored}{scales_file(folder / 'three.safetensors', {3: [0.5, 1, 2]})}")
    with pytest.raises(ValueError, match="option 'dense_heads' has 3:2, and layer 3 has 2 KV heads"):
        attend(q, k, v, "quest:dense_heads=3:2", 64)


def all_equal(some, others):
    """Whether two calls gave the same tensors, bit for bit."""
    return len(some) == len(others) > 0 and all(map(torch.equal, some, others))


def dense(q, k, v, scale=SCALE, softcap=0.0, window=0, sinks=None):
    """out [batch, Hq, N, Dv] and lse [batch, Hq, N] of exact attention, in float64."""
    group, queries, tokens = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
    scores = scale * q.double() @ k.transpose(2, 3)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    position = torch.arange(tokens - queries, tokens)[:, None]
    seen = torch.arange(tokens)[None] <= position
    if window:
        seen &= torch.arange(tokens)[None] > position - window
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[None, :, None, None].expand(*scores.shape[:3], 1)], 3)
        v = torch.cat([v, torch.zeros_like(v[:, :, :1])], 2)
    return scores.softmax(3) @ v, scores.logsumexp(3)
