"""A model on a GPU decodes through a selector as it does on the CPU."""
import pathlib

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (cmake/setup.sh --torch)")
transformers = pytest.importorskip("transformers", reason="transformers is not installed (cmake/setup.sh --torch)")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)
from attest_program import ATTEST
from capture_models import FAMILIES, models, T, token_ids  # noqa: F401
from attest.selectors.attention import attach

LIBRARY = pathlib.Path(ATTEST).parent / "libattest_torch_ops.so"
# Relative to the largest logit. Products on the two devices differ by float32 rounding, through four layers; a code of
# a quantiser may be the next one where a key is halfway between two.
ROUNDING, CODES = 1e-4, 1e-2
SELECTORS = [("exact", 0, ROUNDING), ("quest:page=4", 24, ROUNDING), ("streaming_llm:sink=2", 12, ROUNDING),
             ("ffd:block=16,sub_block=16", 1, CODES), ("kivi:group=8,residual_length=8", 0, CODES)]


def decoded(folder, device, selector, setting):
    """Logits of five tokens behind a prompt, and the ratio of kept tokens."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).to(device).eval()
    attention = attach(model, selector, setting, library=LIBRARY)
    cache, tokens = attention.new_cache(), torch.tensor([token_ids(T + 5, 0)], device=device)
    model(input_ids=tokens[:, :T], past_key_values=cache)
    logits = [model(input_ids=tokens[:, t:t + 1], past_key_values=cache).logits.cpu() for t in range(T, T + 5)]
    return torch.cat(logits, 1), attention.kept_ratio()


@pytest.mark.parametrize("selector, setting, tolerance", SELECTORS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_gpu_is_as_the_cpu(models, family, selector, setting, tolerance):  # noqa: F811
    with torch.inference_mode():
        cpu, kept_on_cpu = decoded(models(family), "cpu", selector, setting)
        gpu, kept = decoded(models(family), "cuda", selector, setting)
    assert kept == pytest.approx(kept_on_cpu, abs=1e-3)
    assert (gpu - cpu).abs().max() <= tolerance * cpu.abs().max()
