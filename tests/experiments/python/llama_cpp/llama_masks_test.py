"""attest.llama_cpp without llama.cpp: which masks of a pass a dump can describe, what it says of the cache, and which
error a failure of the library is."""
import types

import numpy as np
import pytest

from attest.base.errors import InputError, OutputError, UsageError
from attest.llama_cpp import model
from attest.llama_cpp.samples import LlamaSamples, type_of_cache


def samples():
    found = object.__new__(LlamaSamples)
    found.windows = {0: None}
    return found


def mask(rows):
    """Rows of "1" for keys that are seen."""
    return np.array([[0.0 if key == "1" else -np.inf for key in row] for row in rows], np.float32)


def check(found, rows, start=0):
    found._check_mask(types.SimpleNamespace(layer=0, mask=mask(rows)), start)


def test_a_causal_mask():
    found = samples()
    check(found, ["1000", "1100", "1110"])
    check(found, ["111100"], 3)
    assert found.windows[0] is None


def test_a_window_is_found_where_it_first_hides_a_key():
    found = samples()
    check(found, ["10000", "11000"])
    check(found, ["01100", "00110"], 2)
    assert found.windows[0] == 2


@pytest.mark.parametrize("passes", [
    [["1100"]], [["1000", "1110"]],  # a later key
    [["1000", "1100", "0010"]],  # a window that hides two keys at once
    [["1000", "1100", "0110", "0010"]], [["1000", "1100", "0110", "1111"]],  # and changes its size
    [["1000", "1100", "1010"]], [["0000"]]])  # holes, nothing
def test_other_masks_are_refused(passes):
    found = samples()
    with pytest.raises(InputError, match="layer 0: its mask for the query at position . is not a causal one"):
        for rows in passes:
            check(found, rows)


def test_biases_in_a_mask_are_refused():
    found = samples()
    values = mask(["1000", "1100"])
    values[1, 0] = -0.5
    with pytest.raises(InputError, match="position 1 is not a causal one"):
        found._check_mask(types.SimpleNamespace(layer=0, mask=values), 0)


@pytest.mark.parametrize("k, v, expected", [
    ("f16", "f16", "float16"), ("bf16", "bf16", "bfloat16"), ("f32", "f32", "float32"), ("q8_0", "q8_0", "float32"),
    ("q8_0", "f16", "float32"), ("f16", "bf16", "float32")])
def test_the_type_of_a_dump(k, v, expected):
    assert type_of_cache({"k": k, "v": v}) == expected


@pytest.mark.parametrize("k, v, width, rotated, expected", [
    ("f16", "f16", 64, "", ""), ("q8_0", "q4_0", 64, "kv", "k=q8_0,v=q4_0"), ("q8_0", "f16", 64, "k", "k=q8_0"),
    ("f16", "q5_1", 32, "", "v=q5_1"), ("q8_0", "q8_0", 64, "", "k=q8_0,v=q8_0,rotate=none")])
def test_the_cache_is_named_as_the_selector_does(k, v, width, rotated, expected):
    found = samples()
    found.options = types.SimpleNamespace(cache_type_k=k, cache_type_v=v)
    found.geometry, found.rotated = {"head_dim": width, "value_dim": width}, set(rotated)
    assert found._kv_cache() == expected


@pytest.mark.parametrize("lines, kind, cause", [
    ("ggml_gallocr_reserve_n: failed to allocate CPU buffer of size 84940800\n", OutputError, "ggml"),
    ("llama_init_from_model: n_ctx = 256\nggml_aligned_malloc: insufficient memory (attempted to allocate 9 MB)\n"
     "llama_init_from_model: failed to initialize\n", OutputError, "llama_init_from_model: failed"),
    ("allocating 204800.00 MiB on device 0: cudaMalloc failed: out of memory\n", OutputError, "allocating 204800.00"),
    ("llama_kv_cache: memory = 3 MiB\nV cache quantization requires flash_attn\n", UsageError, "V cache quantization"),
    ("", UsageError, "it does not say why")])
def test_a_cache_that_finds_no_memory_is_a_limit_of_the_machine(lines, kind, cause, monkeypatch):
    """Any other cache that cannot be made is one of options that do not go together."""
    monkeypatch.setattr(model, "type_number", len)
    found = object.__new__(model.LlamaModel)
    found.options = types.SimpleNamespace(model="m.gguf", batch_size=1, threads=1, cache_type_k="f16",
                                          cache_type_v="q8_0", flash_attn="off", no_kv_offload=False)
    found.model, found.callback, found.capacity, found.lines = 1, None, 256, []
    found.api = types.SimpleNamespace(llama_context_default_params=types.SimpleNamespace,
                                      llama_init_from_model=lambda *_: found.lines.append(lines))
    with pytest.raises(kind, match=r"^m.gguf: llama.cpp cannot make a cache of K f16 and V q8_0 for 256 tokens \("
                                   + cause):
        found._make_context()
