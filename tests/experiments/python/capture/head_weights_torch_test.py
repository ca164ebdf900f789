"""Head gradients against those of a whole eager run of the model, whose output projections get the outputs of the
heads."""
import h5py
import numpy as np
import pytest
import torch
import transformers

from attest.base.errors import InputError
from attest.capture import head_weights
from capture_models import (
    FAMILIES, make_model, models, read, run, T, token_ids, write_prompts)  # noqa: F401 (models is a fixture)
from near import assert_near

ANSWER = [17, 203, 64]
TOLERANCE = 2e-3  # of the largest: float32, another order of sums, through the gradients of four layers


def plain(folder, ids, rows, answer, scale=1.0):
    """The margins [N], their gradients by each layer's outputs [layers, N, N, Hq, Dv], those of their sum, and W_UV."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()
    outputs = {}

    def keep(layer):
        def hook(module, inputs):
            mask = torch.ones(inputs[0].shape[1], 1)
            mask[rows] = scale
            outputs[layer] = inputs[0] * mask
            outputs[layer].retain_grad()
            return (outputs[layer],)
        return hook

    blocks = [block.self_attn for block in model.model.layers]
    for layer, block in enumerate(blocks):
        (block.o_proj if hasattr(block, "o_proj") else block.dense).register_forward_pre_hook(keep(layer))
    logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, rows].float()
    answer = logits.argmax(1) if answer is None else torch.tensor(answer)
    found, margins = [], []
    for i, token in enumerate(answer):
        others = logits[i].clone()
        others[token] = -torch.inf
        margins.append(logits[i, token] - others.max())
        for output in outputs.values():
            output.grad = None
        margins[-1].backward(retain_graph=True)
        found.append(torch.stack([outputs[layer].grad[0, rows].view(len(rows), 4, -1) for layer in range(len(blocks))]))
    gradients = torch.stack(found, 1).numpy().astype(np.float64)
    projection = None
    if hasattr(blocks[0], "kv_b_proj"):
        projection = [b.kv_b_proj.weight.detach().double().numpy().reshape(4, -1, b.kv_lora_rank) for b in blocks]
        gradients = np.stack([np.einsum("inhv,hvr->inhr", g, w[:, -b.v_head_dim:])
                              for g, w, b in zip(gradients, projection, blocks)])
    return torch.stack(margins).detach().numpy(), answer.numpy(), gradients


@pytest.mark.parametrize("family", FAMILIES)
def test_is_that_of_a_whole_run(family, models, tmp_path):
    dump, ids = tmp_path / "dump.h5", token_ids()
    prompts = write_prompts(tmp_path, {"tokens": ids, "answer": ANSWER, "name": "s"})
    assert run(models(family), prompts, "-o", dump, "--answer", 3, "--output-gradients") == 0
    rows = [T - 1, T, T + 1]
    margins, _, gradients = plain(models(family), ids + ANSWER[:2], rows, ANSWER)
    with h5py.File(dump) as file:
        sample = file["samples/s"]
        np.testing.assert_array_equal(sample["answer_token"], ANSWER)
        assert_near(sample["margin"], margins, abs=1e-3 * (1 + abs(margins).max()))
        for layer in range(4):
            want = np.zeros((3, 4))
            for i in range(3):
                for h in range(4):
                    want[i, h] = sum((gradients[layer, i, n, h] ** 2).sum() for n in range(i + 1)) ** 0.5
            have = sample[f"layers/{layer}/head_gradient"]
            assert have.dtype == np.float32 and want.max() > 0
            assert_near(have, want, abs=TOLERANCE * want.max())
            half = sample[f"layers/{layer}/output_gradient"]
            assert half.dtype == np.float16 and half.attrs["scales"].tolist() == [1, 0.75, 0.5, 0.25]
            total = gradients[layer].sum(0)
            assert_near(read(half)[0], total, abs=TOLERANCE * abs(total).max())
        scaled = plain(models(family), ids + ANSWER[:2], rows, ANSWER, 0.5)[2].sum(1)
        for layer in range(4):
            assert_near(read(sample[f"layers/{layer}/output_gradient"])[2], scaled[layer],
                        abs=TOLERANCE * abs(scaled[layer]).max())


@pytest.mark.parametrize("queries", [("--last", 3), ("--decode", 2)])
def test_without_an_answer_the_token_is_the_model_s_own(queries, models, tmp_path):
    dump = tmp_path / "dump.h5"
    assert run(models("qwen3"), write_prompts(tmp_path, {"tokens": token_ids(), "name": "s"}), "-o", dump, *queries,
               "--head-weights") == 0
    with h5py.File(dump) as file:
        sample = file["samples/s"]
        rows, tokens = sample["query_positions"][:].tolist(), sample["tokens"][:].tolist()
        margins, own, _ = plain(models("qwen3"), tokens[:rows[-1] + 1], rows, None)
        np.testing.assert_array_equal(sample["answer_token"], own)
        assert_near(sample["margin"], margins, abs=1e-3 * (1 + margins.max()))
        assert "output_gradient" not in sample["layers/0"]


def test_a_model_in_bfloat16_keeps_its_weights(tmp_path):
    folder = make_model(tmp_path / "model", FAMILIES["llama"](), torch.bfloat16)
    plain_dump, dump = tmp_path / "plain.h5", tmp_path / "dump.h5"
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "name": "a"}, {"tokens": token_ids(seed=1), "name": "b"})
    assert run(folder, prompts, "-o", plain_dump) == 0
    assert run(folder, prompts, "-o", dump, "--head-weights") == 0
    with h5py.File(plain_dump) as one, h5py.File(dump) as other:
        for name in "qkv":  # of the second prompt, which the model reads after the gradients of the first
            np.testing.assert_array_equal(read(one[f"samples/b/layers/3/{name}"]),
                                          read(other[f"samples/b/layers/3/{name}"]))
        assert one.attrs["rope"] == other.attrs["rope"]
        assert (other["samples/b/layers/3/head_gradient"][:] > 0).all()


def refusal(models, tmp_path, capsys, *options):
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "answer": ANSWER, "name": "s"})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5", *options, "--head-weights") == 4
    assert not (tmp_path / "dump.h5").exists()
    return capsys.readouterr().err


def test_queries_with_gaps_are_refused(models, tmp_path, capsys):
    assert "queries that follow each other" in refusal(models, tmp_path, capsys, "--positions", "5,9")


def test_an_unknown_last_token_of_the_answer_is_refused(models, tmp_path, capsys):
    prompts = write_prompts(tmp_path, {"tokens": token_ids(), "answer": [1, 2, 999, 998]})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5", "--answer", 3, "--head-weights") == 4
    assert "token 999 is not in the model's vocabulary of 260" in capsys.readouterr().err


def test_attention_without_its_mask_is_refused(models, tmp_path, capsys, monkeypatch):
    """The function is registered, its mask function is not: every row sees all keys."""
    own = head_weights.model_attention
    monkeypatch.setattr(head_weights, "model_attention", lambda has_sdpa, module, query, key, value, mask, options:
                        own(has_sdpa, module, query, key, value, None, {**options, "is_causal": False}))
    assert "are not those of the whole text" in refusal(models, tmp_path, capsys, "--last", 4)
    assert "does not hide what comes later" in refusal(models, tmp_path, capsys, "--last", T)  # no prefix


def test_a_wrong_gradient_is_refused(models, tmp_path, capsys, monkeypatch):
    own = head_weights.gradients_of
    monkeypatch.setattr(head_weights, "gradients_of", lambda values, zeros: {
        layer: each * (1.1 if layer == 2 else 1) for layer, each in own(values, zeros).items()})
    assert "layer 2: the gradient of the margins is not that of finite differences" in refusal(
        models, tmp_path, capsys, "--last", 3)


def test_later_rows_must_not_matter():
    each = torch.zeros(3, 3, 2, 4)
    head_weights.check_causal({0: each})
    each[0, 2, 1, 3] = 1e-6
    with pytest.raises(InputError, match="layer 5: .* hide what comes later"):
        head_weights.check_causal({5: each})


def test_checks_that_cost_passes_are_of_the_first_prompts(models, tmp_path, monkeypatch):
    """Of each length the logits, of each layer the differences: the second prompt is longer, the third adds a layer."""
    passes, wholes = [], []
    differences, whole = head_weights.check_differences, head_weights.Rows.read_whole
    monkeypatch.setattr(head_weights, "check_differences", lambda rows, layers, *rest: passes.append(layers)
                        or differences(rows, layers, *rest))
    monkeypatch.setattr(head_weights.Rows, "read_whole", lambda rows: wholes.append(len(rows.ids)) or whole(rows))
    ids = token_ids()
    prompts = write_prompts(tmp_path, {"tokens": ids, "name": "a", "layers": [0, 1]},
                            {"tokens": ids + ids, "name": "b", "layers": [1]},
                            {"tokens": ids[:-1], "name": "c", "layers": [1, 3]})
    assert run(models("llama"), prompts, "-o", tmp_path / "dump.h5", "--last", 2, "--head-weights") == 0
    assert passes == [[0, 1], [], [3]] and wholes == [len(ids), 2 * len(ids)]
