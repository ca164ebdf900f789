"""Runs in vLLM's environment: python vllm_jobs.py JOBS.json. One engine after the other in this process, each with the
plugin, on requests of token ids. A job: {"name", "engine": arguments of LLM, "requests": [{"ids", "tokens",
"arguments"}], "patch": Python code for the runner}. Prints a line of JSON per job: {"name", "preempted", "error"}."""
import gc
import json
import os
import sys

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", TORCHDYNAMO_DISABLE="1", VLLM_LOGGING_LEVEL="ERROR",
                  VLLM_CPU_KVCACHE_SPACE="1", VLLM_NO_USAGE_STATS="1")

from vllm import LLM, SamplingParams
from vllm.distributed import cleanup_dist_env_and_memory
from vllm.v1.core.sched.scheduler import Scheduler

preempted = 0


def count_preemptions():
    preempt = Scheduler._preempt_request

    def counted(*arguments, **named):
        global preempted
        preempted += 1
        return preempt(*arguments, **named)

    Scheduler._preempt_request = counted


def run(job):
    llm = LLM(skip_tokenizer_init=True, max_model_len=256, max_num_seqs=4, gpu_memory_utilization=0.05,
              distributed_executor_backend="uni", disable_log_stats=True,
              **{"enforce_eager": True, "max_num_batched_tokens": 64, "enable_prefix_caching": False, **job["engine"]})
    params = [SamplingParams(temperature=0, max_tokens=request["tokens"], ignore_eos=True, detokenize=False,
                             extra_args=request["arguments"]) for request in job["requests"]]
    llm.generate([{"prompt_token_ids": request["ids"]} for request in job["requests"]], params, use_tqdm=False)


count_preemptions()
with open(sys.argv[1], encoding="utf-8") as file:
    jobs = json.load(file)
for job in jobs:
    preempted, error = 0, None
    try:
        run(job)
    except Exception as failure:
        error = str(failure)
    print(json.dumps({"name": job["name"], "preempted": preempted, "error": error}), flush=True)
    gc.collect()
    cleanup_dist_env_and_memory()
