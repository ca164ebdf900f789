"""The check of a capture can fail: for each family, a fault in what is recorded, or in the output, is refused."""
import h5py
import numpy as np
import pytest
import torch

from capture_models import (
    FAMILIES, make_model, models, read, run, token_ids, write_prompts)  # noqa: F401 (models is a fixture)
from attest.capture import attention as capture_attention
from attest.capture.check import check_layer
from attest.base.errors import InputError
from attest.base.dump_writer import DumpWriter
from attest.capture.latent_attention import AbsorbedAttention
from attest.capture.softmax_attention import SoftmaxAttention

Capture = capture_attention.AttentionCapture
create_layer, check_geometry, write_values, attend, absorb = (
    Capture.create_layer, Capture.check_geometry, DumpWriter.write_values, capture_attention.model_attention,
    AbsorbedAttention.__init__)


def writing(name, change):
    """Changes what is written of q, k or v."""
    def write(self, dataset, start, bits):
        write_values(self, dataset, start, change(bits) if dataset.name.endswith(f"/{name}") else bits)
    return DumpWriter, "write_values", write


def expanding_by_other_heads(self, *arguments):
    absorb(self, *arguments)
    self.expansion = self.expansion.roll(1, dims=1)


def geometry(change):
    return Capture, "check_geometry", lambda self, layer, recorded, scale, softcap: check_geometry(
        self, layer, recorded, *change(scale, softcap))


def layer(change):
    return Capture, "create_layer", lambda self, number, recorded, window, sinks: create_layer(
        self, number, recorded, *change(window, sinks))


FAULTS = {
    "output zero": (capture_attention, "model_attention", lambda *call: torch.zeros_like(attend(*call))),
    "output of other heads": (capture_attention, "model_attention", lambda *call: attend(*call).roll(1, dims=2)),
    "scale": geometry(lambda scale, softcap: (1.2 * scale, softcap)),
    "keys shifted": writing("k", lambda bits: np.roll(bits, 1, axis=1)),
    "values shifted": writing("v", lambda bits: np.roll(bits, 1, axis=1)),
    "queries of other heads": writing("q", lambda bits: np.roll(bits, 1, axis=1)),
    "key channel": writing("k", lambda bits: np.roll(bits, 1, axis=2)),
    "keys zero": writing("k", np.zeros_like),
}
FAULTS_OF = {
    "mistral": {"no window": layer(lambda window, sinks: (None, sinks)),
                "window one too long": layer(lambda window, sinks: (window + 1, sinks))},
    "gemma2": {"no window": layer(lambda window, sinks: (None, sinks)),
               "no soft-cap": geometry(lambda scale, softcap: (scale, None))},
    "gemma3": {"no window": layer(lambda window, sinks: (None, sinks))},
    "phi3": {"no window": layer(lambda window, sinks: (None, sinks))},
    "gpt_oss": {"no window": layer(lambda window, sinks: (None, sinks)),
                "no sinks": layer(lambda window, sinks: (window, None)),
                "sinks of other heads": layer(lambda window, sinks: (window, sinks.roll(1)))},
    **{name: {"heads expanded wrongly": (AbsorbedAttention, "__init__", expanding_by_other_heads)}
       for name in FAMILIES if name.startswith("deepseek")},
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", [*FAMILIES, "lfm2", "bamba"])
def test_each_fault_is_refused(family, dtype, models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    arguments = [models(family), prompts, "-o", tmp_path / "dump.h5", "--dtype", dtype, "--last", "8"]
    assert run(*arguments) == 0, capsys.readouterr().err
    for name, (owner, method, replacement) in {**FAULTS, **FAULTS_OF.get(family, {})}.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, method, replacement)
            code = run(*arguments, "--force")
        error = capsys.readouterr().err
        assert code == 4 and "its attention is not the softmax(scale q k) v" in error, (name, error)


def test_faults_in_decode_steps_are_refused(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"})
    arguments = [models("llama"), prompts, "-o", tmp_path / "dump.h5", "--decode", "3"]

    def one_earlier(self, dataset, start, bits):
        earlier = dataset.name.endswith("/v") and bits.shape[1] == 1
        write_values(self, dataset, (0, start[1] - 1, 0) if earlier else start, bits)

    for fault in (lambda *_: None, one_earlier):
        with pytest.MonkeyPatch.context() as patch:
            if fault is one_earlier:
                patch.setattr(DumpWriter, "write_values", fault)
            code = run(*arguments, "--force")
        assert code == (4 if fault is one_earlier else 0)
    assert "its attention is not" in capsys.readouterr().err


@pytest.mark.parametrize("family", ["gemma2", "gpt_oss"])  # they run the library's eager function
def test_zeros_are_refused_where_scores_are_large(family, tmp_path, capsys):
    """In bfloat16 a score of 80 is a multiple of 0.5."""
    config = FAMILIES[family]()
    config.initializer_range, config.attn_logit_softcapping = 1.0, 200.0
    folder = make_model(tmp_path / "model", config, torch.bfloat16)
    dump = tmp_path / "dump.h5"
    arguments = [folder, write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"}), "-o", dump, "--layers", "0"]
    assert run(*arguments) == 0, capsys.readouterr().err
    with h5py.File(dump) as file:
        q, k = (read(file[f"samples/s/layers/0/{name}"]) for name in "qk")
        scores = np.einsum("nhd,htd->nht", q, np.repeat(k, 2, axis=0)) * file.attrs["softmax_scale"]
        assert np.abs(scores).max() > 80
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*FAULTS["output zero"])
        assert run(*arguments, "--force") == 4
    assert "layer 0: its attention is not" in capsys.readouterr().err


# ---- the bound

def flat(tokens, dtype):
    """Nearly flat attention over values that cancel out: outputs are far smaller than values."""
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 16), torch.randn(1, tokens, 16), torch.randn(1, tokens, 16)
    return SoftmaxAttention(q.to(dtype), k.to(dtype), v.to(dtype), [tokens - 3, tokens - 2, tokens - 1], 0.01)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("tokens", [20, 5000])
def test_rounding_passes_and_faults_do_not(tokens, dtype):
    call = flat(tokens, dtype)
    exact, *_ = call.outputs(slice(0, 3))
    assert tokens == 20 or exact.abs().max() < 0.1
    probabilities = call.scores(slice(0, 3)).softmax(-1).to(dtype).float()
    rounded = torch.matmul(probabilities, call.value.float()[:, None]).flatten(0, 1).transpose(0, 1)
    check_layer(0, call, rounded.to(dtype))
    for wrong in (exact * 0, exact * 1.05, exact.roll(1, 0), exact.roll(1, 1), exact + exact.norm() * torch.nan):
        with pytest.raises(InputError, match="layer 7: "):
            check_layer(7, call, wrong.to(dtype))


def test_output_that_is_not_finite_names_the_query():
    call = flat(20, torch.float16)
    output = call.outputs(slice(0, 3))[0].half()
    output[1, 0, 0] = torch.inf
    with pytest.raises(InputError, match="layer 2: the model's own attention output is not finite .* position 18 "):
        check_layer(2, call, output)
