"""attest bench kernel without a GPU: what it refuses, in which order, and that it writes nothing."""

import pytest
from attest_program import attest_without_gpu as attest


def refusal(folder, *arguments):
    before = sorted(folder.iterdir())
    done = attest(folder, "bench", "kernel", *arguments)
    assert done.stdout == "" and done.stderr.startswith("attest: ") and done.stderr.count("\n") == 1, done.stderr
    assert sorted(folder.iterdir()) == before
    return done.returncode, done.stderr


def test_it_takes_a_gpu(tmp_path):
    for arguments in ([], ["--json"], ["--quiet", "-o", "b.json"], ["--dump", "d.h5"]):
        code, sentence = refusal(tmp_path, *arguments)
        assert code == 5 and "bench kernel: expected a GPU with CUDA" in sentence and "found " in sentence


def test_the_cpu_cannot_be_chosen(tmp_path):
    code, sentence = refusal(tmp_path, "--device", "cpu")
    assert code == 2 and "--device cpu: 'attest bench kernel' measures a GPU; expected cuda or auto" in sentence


@pytest.mark.parametrize("arguments, sentence", [
    (["--layers", "1"], "--layers and --samples choose from a dump, expected --dump with them"),
    (["--samples", "a"], "--layers and --samples choose from a dump, expected --dump with them"),
    (["--heads", "6", "--kv-heads", "4"], "--heads is 6, expected a multiple of --kv-heads, which is 4"),
    (["--lengths", "4K,4096"], "--lengths: 4096 tokens are there twice"),
    (["--batch", "1,8,1"], "--batch: '1' is there twice"),
    (["--keep", "6%,0.06"], "--keep: '0.06' is there twice"),
    (["--delta", "5,5"], "--delta: '5' is there twice"),
    (["--keep", "6%,0"], "--keep: expected shares above 0, found 0"),
    (["--keep", "200%"], "--keep: '200%' is not a share such as 10% or 0.1"),
    (["--only", "ablation,ablation"], "--only: 'ablation' is there twice"),
])
def test_options_that_do_not_fit(arguments, sentence, tmp_path):
    code, found = refusal(tmp_path, *arguments)
    assert code == 2 and sentence in found


def test_the_help_names_the_defaults(tmp_path):
    text = attest(tmp_path, "bench", "kernel", "--help").stdout
    for part in ("4K..256K", "[1,8]", "5,7", "2%,6%,27%,100%", "{float16,bfloat16}", "kernel_latency"):
        assert part in text
