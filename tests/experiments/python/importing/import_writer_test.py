"""Arrays in memory become a dump, read back with h5py."""
import h5py
import numpy as np
import pytest

from array_files import memory_array, message_of
from attest.importing.plan import ImportOptions, plan_import
from attest.importing.writer import write_import

HQ, HKV, N, T, D, DV = 4, 2, 3, 7, 5, 6


def import_to(path, arrays, **options):
    options = ImportOptions(**options)
    sizes = []
    plan = plan_import(arrays, "memory", options)
    write_import(plan, options, str(path), False, sizes.append)
    assert sum(sizes) == plan.num_bytes()
    return h5py.File(path)


def axes(letters, **extent):
    return [extent[letter] for letter in letters]


@pytest.mark.parametrize("column_major", [False, True])
@pytest.mark.parametrize("letters", ["HTD", "THD", "HDT", "TDH", "DHT", "BHTD", "BTHD", "HBTD", "THDB", "BDTH"])
def test_every_layout_becomes_the_same_dump(letters, column_major, tmp_path):
    random = np.random.default_rng(0)
    batch = 2 if "B" in letters else 1
    expected = {layer: {role: random.normal(size=(batch, heads, tokens, channels)).astype(np.float32)
                        for role, heads, tokens, channels in (("q", HQ, N, D), ("k", HKV, T, D), ("v", HKV, T, DV))}
                for layer in (0, 1)}
    arrays = []
    for layer, roles in expected.items():
        for role, values in roles.items():  # [B, H, T, D]
            values = values.transpose(["BHTD".index(letter) for letter in letters + "B" * ("B" not in letters)])
            values = values if "B" in letters else values[..., 0]
            values = np.asarray(values, order="F" if column_major else "C")
            arrays.append(memory_array(f"layers.{layer}.{role}", values))
    with import_to(tmp_path / "dump.h5", arrays, layout=letters) as dump:
        assert len(dump["samples"]) == batch and dump.attrs["num_layers"] == 2
        for b, sample in enumerate(dump["samples"].values()):
            assert sample["query_positions"][:].tolist() == [4, 5, 6]
            for layer, roles in expected.items():
                group = sample[f"layers/{layer}"]
                np.testing.assert_array_equal(group["q"][:], roles["q"][b].transpose(1, 0, 2))
                np.testing.assert_array_equal(group["k"][:], roles["k"][b])
                np.testing.assert_array_equal(group["v"][:], roles["v"][b])
                assert group["k"].chunks is None


def zeros(name, *shape):
    return memory_array(name, np.zeros(shape, np.float32))


def test_options_reach_the_dump(tmp_path):
    arrays = [zeros(name, 2, 2, 4) for name in ("q_0", "q_1")]
    arrays += [zeros(name, 1, 9, 4) for name in ("k_0", "v_0", "k_1", "v_1")]
    with import_to(tmp_path / "dump.h5", arrays, positions=[3, 7], sample="one", task="niah", model="m", rope="{}",
                   num_layers=5, softmax_scale=0.25, logit_softcap=30.0, sliding_window=4, window_layers=[1],
                   spans=[[1, 3]]) as dump:
        assert dict(dump.attrs) == {
            "format": "attention-dump", "format_version": 1, "model": "m", "num_layers": 5, "num_query_heads": 2,
            "num_kv_heads": 1, "head_dim": 4, "value_dim": 4, "softmax_scale": 0.25, "logit_softcap": 30.0,
            "rope": "{}", "source": '{"generator":"attest import","layout":"HTD"}'}
        sample = dump["samples/one"]
        assert dict(sample.attrs) == {"task": "niah", "num_tokens": 9}
        assert sample["query_positions"][:].tolist() == [3, 7] and sample["spans"][:].tolist() == [[1, 3]]
        assert "sliding_window" not in sample["layers/0"].attrs and sample["layers/1"].attrs["sliding_window"] == 4


def test_what_is_not_given_is_not_written(tmp_path):
    with import_to(tmp_path / "dump.h5", [zeros("q", 2, 1, 4), zeros("k", 1, 9, 4), zeros("v", 1, 9, 4)]) as dump:
        assert not {"softmax_scale", "logit_softcap", "rope", "created"} & set(dump.attrs)
        assert set(dump["samples/sample"]) == {"layers", "query_positions"}
        assert not dump["samples/sample/layers/0"].attrs


@pytest.mark.parametrize("element_type, fields, bias", [
    ("float16", (15, 10, 5, 0, 10), 15), ("bfloat16", (15, 7, 8, 0, 7), 127), ("float32", (31, 23, 8, 0, 23), 127)])
def test_bits_are_kept_nan_and_infinity_among_them(element_type, fields, bias, tmp_path):
    """Bad values are reported by `attest inspect --check`, not by the import."""
    word = np.uint32 if element_type == "float32" else np.uint16
    bits = np.arange(2 * 300 * 128).reshape(2, 300, 128).astype(word) * word(257)
    arrays = [memory_array(role, bits, element_type=element_type) for role in "qkv"]
    with import_to(tmp_path / "dump.h5", arrays) as dump:
        k = dump["samples/sample/layers/0/k"]
        kind = k.id.get_type()
        assert kind.get_fields() == fields and kind.get_ebias() == bias and kind.get_order() == h5py.h5t.ORDER_LE
        read = np.empty(k.shape, word)
        k.id.read(h5py.h5s.ALL, h5py.h5s.ALL, read, kind)
        np.testing.assert_array_equal(read, bits)


def test_what_fails_while_it_is_written_leaves_nothing(tmp_path):
    arrays = [zeros("q", 2, 1, 4), zeros("k", 1, 9, 4), zeros("v", 1, 9, 4)]

    class Reader:
        def read(self, size):
            raise KeyboardInterrupt

        def close(self):
            pass

    arrays[2].open = Reader
    with pytest.raises(KeyboardInterrupt):
        import_to(tmp_path / "dump.h5", arrays)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "dump.h5").write_text("mine")
    assert "dump.h5: exists already, expected a new file" in message_of(import_to, tmp_path / "dump.h5", arrays)
    assert (tmp_path / "dump.h5").read_text() == "mine"
