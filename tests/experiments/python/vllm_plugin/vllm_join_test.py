"""attest.vllm_plugin.join: the dumps of tensor- and pipeline-parallel ranks become one."""
import h5py
import numpy as np
import pytest

from attest.base.dump_writer import DumpWriter
from attest.base.errors import InputError
from attest.vllm_plugin.join import join_requests, refusals
from attest.vllm_plugin.rank import Rank
from near import assert_near

HEADS, DIM, TOKENS, ROWS = 8, 4, 6, 2
ROUNDED = 2**-7  # to bfloat16


def values(request, layer, name, kv_heads):
    """All heads, as float32."""
    shape = {"q": (ROWS, HEADS, DIM), "output": (ROWS, HEADS, DIM)}.get(name, (kv_heads, TOKENS, DIM))
    return np.random.default_rng([ord(request), layer, ord(name[0])]).standard_normal(shape).astype(np.float32)


def write(folder, request, rank, layers, kv_heads, kind="float32", **header):
    """What one rank writes of a request."""
    path = folder / f"{request}{rank.suffix()}.h5"
    heads, own_keys = HEADS // rank.tensor_size, max(1, kv_heads // rank.tensor_size)
    first_key = rank.tensor // rank.kv_copies * own_keys
    with DumpWriter(path, True) as writer:
        writer.write_header(**{"model": "m", "num_layers": 4, "num_query_heads": heads, "num_kv_heads": own_keys,
                               "head_dim": DIM, "created": f"at {request}", "engine_rank": rank.attribute(), **header})
        sample = writer.create_sample(request, "t", TOKENS, [4, 5], prompt_length=5)
        writer.write_array(sample, "tokens", range(TOKENS), "<i4")
        for layer in layers:
            group = writer.create_layer(sample, layer, 3 if layer else None)
            for name in ("q", "k", "v", "output"):
                of_all = values(request, layer, name, kv_heads)
                own = of_all[first_key:first_key + own_keys] if name in "kv" else \
                    of_all[:, rank.tensor * heads:(rank.tensor + 1) * heads]
                bits = own.view(np.uint32) if kind == "float32" else (own.view(np.uint32) >> 16).astype(np.uint16)
                writer.write_values(writer.create_values(group, name, own.shape, kind), (0, 0, 0), bits)
            writer.write_array(group, "sinks", np.arange(HEADS)[rank.tensor * heads:][:heads], "<f4")
            writer.write_array(group, "cache_scales", np.array([0.5, layer + 1]), "<f4")
        writer.commit()
    return path


def join(folder, *paths, **options):
    target = folder / "joined.h5"
    join_requests([str(path) for path in paths], target, **options)
    return h5py.File(target)


def check(dump, request, layers, kv_heads, exact=True):
    assert dump.attrs["num_query_heads"] == HEADS and dump.attrs["num_kv_heads"] == kv_heads
    assert "engine_rank" not in dump.attrs
    sample = dump[f"samples/{request}"]
    assert dict(sample.attrs) == {"task": "t", "num_tokens": TOKENS, "prompt_length": 5}
    assert sample["tokens"][:].tolist() == list(range(TOKENS)) and sample["query_positions"][:].tolist() == [4, 5]
    assert sorted(sample["layers"]) == sorted(map(str, layers))
    for layer in layers:
        group = sample[f"layers/{layer}"]
        assert group.attrs.get("sliding_window") == (3 if layer else None)
        assert group["sinks"][:].tolist() == list(range(HEADS))
        assert group["cache_scales"][:].tolist() == [0.5, layer + 1], "of the layer, not of its heads"
        for name in ("q", "k", "v", "output"):
            expected = values(request, layer, name, kv_heads)
            found = group[name].astype(np.float32)[:]
            assert_near(found, expected, rel=0 if exact else ROUNDED, what=name)


@pytest.mark.parametrize("kv_heads, size", [(8, 2), (4, 4), (2, 4), (1, 2)])
def test_the_heads_of_tensor_parallel_ranks(tmp_path, kv_heads, size):
    ranks = [Rank(t, size, kv_copies=max(1, size // kv_heads)) for t in range(size)]
    paths = [write(tmp_path, request, rank, [0, 2], kv_heads) for request in "ab" for rank in reversed(ranks)]
    dump = join(tmp_path, *paths)
    assert sorted(dump["samples"]) == ["a", "b"] and dump.attrs["created"] == "at a"
    for request in "ab":
        check(dump, request, [0, 2], kv_heads)


def test_the_layers_of_pipeline_parallel_ranks(tmp_path):
    paths = [write(tmp_path, "a", Rank(t, 2, p, 2), [2 * p, 2 * p + 1], 2) for p in range(2) for t in range(2)]
    check(join(tmp_path, *paths), "a", [0, 1, 2, 3], 2)


def test_bfloat16_and_compression(tmp_path):
    paths = [write(tmp_path, "a", Rank(t, 2), [0], 2, "bfloat16") for t in range(2)]
    dump = join(tmp_path, *paths, gzip_level=1)
    assert dump["samples/a/layers/0/k"].compression == "gzip"
    check(dump, "a", [0], 2, exact=False)


def test_the_model_may_have_another_name(tmp_path):
    paths = [write(tmp_path, request, Rank(), [0], 2) for request in "ab"]
    assert join(tmp_path, *paths, model_name="other").attrs["model"] == "other"


def test_one_rank(tmp_path):
    check(join(tmp_path, write(tmp_path, "a", Rank(), [0, 1], 2)), "a", [0, 1], 2)


def test_a_missing_rank_is_refused(tmp_path):
    paths = [write(tmp_path, "a", Rank(t, 4), [0], 4) for t in (0, 2, 3)]
    with pytest.raises(InputError, match="a.rank-0-0.h5: request 'a': expected the dumps of 4 tensor-parallel ranks, "
                                         "found 0, 2, 3"):
        join(tmp_path, *paths)
    assert not (tmp_path / "joined.h5").exists()


def test_a_missing_pipeline_stage_is_refused(tmp_path):
    paths = [write(tmp_path, "a", Rank(t, 2, 0, 2), [0, 1], 4) for t in (0, 1)]
    with pytest.raises(InputError, match="request 'a': expected the dumps of 2 pipeline-parallel ranks, found 0"):
        join(tmp_path, *paths)
    assert not (tmp_path / "joined.h5").exists()


def test_requests_of_two_engines_are_refused(tmp_path):
    paths = [write(tmp_path, request, Rank(), [0], 2, kv_cache=cache)
             for request, cache in (("a", ""), ("b", "k=q8_0"))]
    with pytest.raises(InputError, match="b.h5: its kv_cache is 'k=q8_0', that of the requests before '', and a dump "
                                         "has one"):
        join(tmp_path, *paths)


@pytest.mark.parametrize("content", [b"", b"no HDF5", None])
def test_a_damaged_file_is_refused(tmp_path, content):
    path = write(tmp_path, "a", Rank(), [0], 2)
    path.write_bytes(path.read_bytes()[:3000] if content is None else content)
    with pytest.raises(InputError, match="a.h5: is damaged, or not what the plugin writes"):
        join(tmp_path, path)


def test_what_was_refused_is_told(tmp_path):
    (tmp_path / "b.refused").write_text("request b: because\n")
    (tmp_path / "a.refused").write_text("request a: because\n")
    assert refusals(tmp_path) == ["request a: because", "request b: because"]
