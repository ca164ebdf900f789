"""Runs in vLLM's environment: python vllm_faults.py JOBS.json. Plants faults in the attention of vLLM's build for CPUs,
beneath the plugin. A job: {"engine": arguments of LLM, "rounds": [{"fault", "layer", "request"}]}; each round is a
request (vllm_jobs.py) that is computed while one layer, or each where "layer" is null, has the fault."""
import contextlib
import copy
import gc
import json
import os
import sys

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", TORCHDYNAMO_DISABLE="1", VLLM_LOGGING_LEVEL="ERROR",
                  VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1")

import torch
from vllm import LLM, SamplingParams
from vllm.distributed import cleanup_dist_env_and_memory
from vllm.model_executor.models.utils import extract_layer_index
from vllm.v1.attention.backends import cpu_attn

TURNED, SCALE, WINDOW = 3, 0.5, 24


@contextlib.contextmanager
def replaced(owner, **values):
    before = {name: getattr(owner, name) for name in values}
    try:
        for name, value in values.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


class Call:
    """The arguments of a call of the attention layer, and `run`, which computes them."""

    def __init__(self, run, impl, layer, query, key, value, cache, metadata, output):
        self.run, self.impl, self.layer = run, impl, layer
        self.query, self.key, self.value, self.cache, self.metadata = query, key, value, cache, metadata
        self.output = output

    def plain(self, **changed):
        given = {name: changed.get(name, getattr(self, name))
                 for name in ("layer", "query", "key", "value", "cache", "metadata", "output")}
        self.run(self.impl, *given.values())


def other_attribute(**values):
    def fault(call):
        with replaced(call.impl, **values):
            call.plain()
    return fault


def no_mask(call):
    metadata = copy.copy(call.metadata)
    metadata.causal = False
    call.plain(metadata=metadata)


def turned_queries(call):
    half = call.query.shape[-1] // 2
    angles = TURNED / 10000.0 ** (torch.arange(half) / half)
    first, second = call.query.float().split(half, -1)
    turned = torch.cat((first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()), -1)
    call.plain(query=turned.to(call.query.dtype))


def heads_modulo(call):
    """Query head h reads KV head h mod Hkv."""
    kv_heads, heads = call.impl.num_kv_heads, call.impl.num_heads
    order = sorted(range(heads), key=lambda head: (head % kv_heads, head))
    output = torch.empty_like(call.output.view(len(call.output), heads, -1))
    call.plain(query=call.query[:, order].contiguous(), output=output)
    call.output.view(len(output), heads, -1)[:, order] = output


def through_fp8(values, scale=1.0):
    return (values.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn).to(values.dtype) * scale


def undeclared_fp8(call):
    call.plain(key=through_fp8(call.key), value=through_fp8(call.value))


def rounded_codes(call, **read):
    """vLLM's kernels for CPUs cut codes: of values that are codes already they keep all. Keys have the scale SCALE."""
    attend = cpu_attn.ops.cpu_attention_with_kv_cache

    def attention(**named):
        attend(**(named | read))
    call.layer._k_scale_float = SCALE  # from now on: the plugin reads it when it writes
    with replaced(cpu_attn.ops, cpu_attention_with_kv_cache=attention):
        call.plain(key=through_fp8(call.key, SCALE), value=through_fp8(call.value))


FAULTS = {"none": Call.plain, "no_window": other_attribute(sliding_window=-1),
          "window": other_attribute(sliding_window=WINDOW),
          "no_sinks": other_attribute(sinks=None), "no_mask": no_mask, "turned_queries": turned_queries,
          "heads_modulo": heads_modulo, "undeclared_fp8": undeclared_fp8, "rounded_codes": rounded_codes,
          "scale_forgotten": lambda call: rounded_codes(call, k_scale=1.0)}
now = {"fault": "none", "layer": None, "else": "none"}


def plant():
    """Attention of each layer goes through the fault of the round, or through what the other layers of it do."""
    forward = cpu_attn.CPUAttentionBackendImpl.forward

    def faulty(self, layer, query, key, value, kv_cache, attn_metadata, output, **scales):
        if attn_metadata is None:
            return forward(self, layer, query, key, value, kv_cache, attn_metadata, output)
        is_chosen = now["layer"] in (None, extract_layer_index(layer.layer_name))
        FAULTS[now["fault"] if is_chosen else now["else"]](
            Call(forward, self, layer, query, key, value, kv_cache, attn_metadata, output))
        return output

    cpu_attn.CPUAttentionBackendImpl.forward = faulty


def run(job):
    llm = LLM(skip_tokenizer_init=True, max_model_len=256, max_num_seqs=4, gpu_memory_utilization=0.05, block_size=32,
              distributed_executor_backend="uni", disable_log_stats=True, enforce_eager=True,
              enable_prefix_caching=False,
              max_num_batched_tokens=256, **job["engine"])
    for round in job["rounds"]:
        now.update({"else": "none"} | {key: value for key, value in round.items() if key != "request"})
        request = round["request"]
        llm.generate([{"prompt_token_ids": request["ids"]}], SamplingParams(
            temperature=0, max_tokens=request["tokens"], ignore_eos=True, detokenize=False,
            extra_args=request["arguments"]), use_tqdm=False)


plant()
with open(sys.argv[1], encoding="utf-8") as file:
    jobs = json.load(file)
for job in jobs:
    run(job)
    gc.collect()
    cleanup_dist_env_and_memory()
print("planted")
