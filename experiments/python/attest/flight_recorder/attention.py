"""What FlashInfer's attention functions were given, as attention of single requests."""
import dataclasses

import numpy as np

from ..base.errors import InputError
from ..importing.source_array import shape_text
from .stored import integers, rows

RUNS = ("single_prefill_with_kv_cache", "single_decode_with_kv_cache", "run", "trtllm_batch_decode_with_kv_cache",
        "trtllm_batch_context_with_kv_cache")
FUNCTIONS = (*RUNS, "plan", "__init__")
WRAPPERS = ("BatchPrefillWithPagedKVCacheWrapper", "BatchPrefillWithRaggedKVCacheWrapper",
            "BatchDecodeWithPagedKVCacheWrapper", "CUDAGraphBatchDecodeWithPagedKVCacheWrapper")
PLAN_OF_DECODE = {"indptr": "paged_kv_indptr", "indices": "paged_kv_indices", "last_page_len": "paged_kv_last_page_len",
                  "head_dim": "head_dim_qk"}
# What changes which keys a query sees, or what it multiplies, in a way that a dump cannot describe.
REFUSED = ("custom_mask", "packed_custom_mask", "prefix_len_ptr", "token_pos_in_items_ptr", "max_item_len_ptr", "mask",
           "kv_cache_sf", "v_indptr", "o_indptr", "scale_q", "scale_k", "scale_v", "bmm1_scale_log2",
           "skip_softmax_threshold_scale_factor", "causal_seqlens_kv_global", "jit_args")
LN_2 = float(np.log(2))


@dataclasses.dataclass
class Attention:
    """A call of attention: one layer of one pass. Requests lie one behind the other in q, output and lse [tokens, ...].
    keys(request) and values(request) give [T, Hkv, D or Dv]."""
    call: object
    layer: int
    pass_number: int
    q: object  # SourceArray [tokens, Hq, D]
    output: object  # [tokens, Hq, Dv]
    lse: object  # [tokens, Hq], or None
    lse_factor: float  # makes natural logarithms of it
    bounds: np.ndarray  # [requests + 1]: where the queries of each request begin and end
    lengths: list  # keys of each request
    cache: object  # PagedCache or FlatCache
    scale: float
    softcap: float | None
    window: int | None
    sinks: object
    value_scale: float

    def query_rows(self, request):
        return self.bounds[request + 1] - self.bounds[request]

    def cache_arrays(self):
        return (self.cache.k, self.cache.v) if isinstance(self.cache, FlatCache) else self.cache.pair


class FlatCache:
    """Keys and values [tokens, Hkv, D] (NHD) or [Hkv, tokens, D] (HND) of all requests, one behind the other."""

    def __init__(self, k, v, starts, layout):
        self.k, self.v, self.starts, self.layout = k, v, starts, layout

    def read(self, which, request):
        array = getattr(self, which)
        begin, end = int(self.starts[request]), int(self.starts[request + 1])
        if self.layout == "NHD":
            return rows(array, begin, end - begin)
        return rows(array, 0, array.shape[0])[:, begin:end].transpose(1, 0, 2)

    def geometry(self):
        axis = 1 if self.layout == "NHD" else 0
        return self.k.shape[axis], self.k.shape[2], self.v.shape[2]


class PagedCache:
    """Pages [page, 2, P, Hkv, D] (NHD) or [page, 2, Hkv, P, D] (HND), where 2 is keys and values; or a pair of tensors
    without that axis. `pages`: the page numbers of each request."""

    def __init__(self, call, cache, layout, pages, lengths):
        self.pages, self.lengths, self.layout = pages, lengths, layout
        self.pair = cache if isinstance(cache, list) else [cache, cache]
        self.together = not isinstance(cache, list)
        expected = 5 if self.together else 4
        for array in self.pair:
            if not hasattr(array, "shape") or len(array.shape) != expected or self.together and array.shape[1] != 2:
                call.fail(f"pages of {expected} axes", shape_text(array.shape) if hasattr(array, "shape") else "none")
        axes = self.pair[0].shape[2:] if self.together else self.pair[0].shape[1:]
        self.page_size = axes[0] if layout == "NHD" else axes[1]

    def geometry(self):
        at = -2 if self.layout == "NHD" else -3
        return self.pair[0].shape[at], self.pair[0].shape[-1], self.pair[1].shape[-1]

    def read(self, which, request):
        index = "kv".index(which)
        found = np.stack([rows(self.pair[index], int(page), 1)[0] for page in self.pages[request]])
        found = found[:, index] if self.together else found
        if self.layout == "HND":
            found = found.swapaxes(1, 2)
        return found.reshape(-1, *found.shape[2:])[:self.lengths[request]]


def attention_calls(calls, folder):
    """The Attention of each call that is one. A wrapper's layers are its calls of run, in order, since it was planned."""
    found, planned, made, passes = [], {}, {}, 0
    for call in calls:
        wrapper, _, name = call.function.rpartition(".")
        if wrapper and wrapper not in WRAPPERS:
            continue
        if name == "__init__":
            made[call.owner] = call
        elif name == "plan":
            planned[call.owner] = [call, passes, 0]
            passes += 1
        elif call.results:
            if wrapper:
                state = planned.get(call.owner)
                if state is None:
                    call.fail("a call of plan before it", "none (FLASHINFER_DUMP_INCLUDE must take plan, too)")
                plan, number, layer = state
                found.append(of_wrapper(call, plan, made.get(call.owner), number, layer))
                state[2] += 1
            else:
                found.append(of_function(call, passes))
                passes += 1
    if not found:
        raise InputError(f"{folder}: expected finished calls of FlashInfer's attention, found none")
    return found


def _refuse_what_changes_attention(*calls):
    for call in calls:
        for name in REFUSED:
            if call is not None and call.get(name) is not None:
                call.fail(f"no {name}, which a dump cannot describe", "one")
        if call is not None and call.get("pos_encoding_mode", "NONE") != "NONE":
            call.fail("queries and keys after their rotation", f"pos_encoding_mode {call.get('pos_encoding_mode')}")


def _number(call, name, default=None):
    value = call.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
        call.fail(f"a number {name}", "a tensor or another value, which attest does not read")
    return value


def _layout(call):
    layout = call.get("kv_layout", "NHD") if call is not None else "NHD"
    if layout not in ("NHD", "HND"):
        call.fail("kv_layout NHD or HND", layout)
    return layout


def _window(left):
    """FlashInfer counts the keys left of the query's own."""
    return None if left is None or left < 0 else int(left) + 1


def _outputs(call, lse_base):
    """(output, lse, factor of the lse)"""
    output, lse = call.results[0], call.results[1] if len(call.results) > 1 else None
    return output, lse, {"log2": LN_2, "ln": 1.0}[lse_base]


def of_wrapper(call, plan, made, number, layer):
    _refuse_what_changes_attention(call, plan, made)
    if any(name.startswith("*") for name in call.given):
        call.fail("arguments of attention itself", "more, of a kernel of its own")
    given, decode = dict(plan.given), "Decode" in call.function
    for old, new in (PLAN_OF_DECODE if decode else {}).items():
        given[new] = given.get(old)
    plan = dataclasses.replace(plan, given=given)
    head_dim, q = _number(plan, "head_dim_qk"), call.get("q")
    if made is None:
        call.fail("the call that made its object", "none (FLASHINFER_DUMP_INCLUDE must take __init__, too)")
    layout, extra = _layout(made), 1.0
    for name in ("q_scale", "k_scale"):
        extra *= _number(call, name, 1.0)
    left = call.get("window_left", plan.get("window_left", -1))
    scale = _number(plan, "sm_scale") or head_dim**-0.5
    if "Ragged" in call.function:
        starts, bounds = integers(plan.get("kv_indptr"), 1), integers(plan.get("qo_indptr"), 1)
        cache, lengths = FlatCache(call.get("k"), call.get("v"), starts, layout), np.diff(starts).tolist()
    else:
        indptr, indices = integers(plan.get("paged_kv_indptr"), 1), integers(plan.get("paged_kv_indices"), 1)
        last, size = integers(plan.get("paged_kv_last_page_len"), 1), _number(plan, "page_size")
        pages = [indices[begin:end] for begin, end in zip(indptr, indptr[1:])]
        lengths = [(len(p) - 1) * size + int(n) if len(p) else 0 for p, n in zip(pages, last)]
        cache = PagedCache(call, call.get("paged_kv_cache"), layout, pages, lengths)
        bounds = np.arange(len(pages) + 1) if decode else integers(plan.get("qo_indptr"), 1)
        if decode and _number(call, "q_len_per_req", 1) != 1:
            call.fail("one query per request", call.get("q_len_per_req"))
    if not decode and not plan.get("causal", False) and (np.diff(bounds) > 1).any():
        call.fail("causal attention", "causal False")
    output, lse, factor = _outputs(call, call.get("lse_base", "log2"))
    if call.get("lse_layout", "NH") != "NH":
        lse = None
    return Attention(call, layer, number, q, output, lse, factor, bounds, lengths, cache, scale * extra,
                     _number(plan, "logits_soft_cap") or None, _window(left), call.get("sinks"),
                     _number(call, "v_scale", 1.0))


def of_function(call, number):
    _refuse_what_changes_attention(call)
    return (of_trtllm if call.function.startswith("trtllm") else of_single)(call, number)


def of_single(call, number):
    """Of one request. k and v [T, Hkv, D] (NHD) or [Hkv, T, D]; a decoded query has no axis of tokens."""
    q, layout, k = call.get("q"), _layout(call), call.get("k")
    length = k.shape[0 if layout == "NHD" else 1]
    output, lse, factor = _outputs(call, "log2")
    if "decode" in call.function:
        q, output, lse = (None if array is None else with_axis(array) for array in (q, output, lse))
    elif not call.get("causal", False) and q.shape[0] > 1:
        call.fail("causal attention", "causal False")
    scale = _number(call, "sm_scale") or q.shape[-1] ** -0.5
    for name in ("q_scale", "k_scale"):
        scale *= _number(call, name, 1.0)
    return Attention(call, 0, number, q, output, lse, factor, np.array([0, q.shape[0]]), [length],
                     FlatCache(k, call.get("v"), [0, length], layout), scale, _number(call, "logits_soft_cap") or None,
                     _window(_number(call, "window_left", -1)), None, _number(call, "v_scale", 1.0))


def with_axis(array):
    return dataclasses.replace(array, shape=(1, *array.shape))


def of_trtllm(call, number):
    """Requests have rows of a table of pages, [requests, most pages]."""
    q, layout = call.get("query"), _layout(call) if "kv_layout" in call.given else "HND"
    table, lengths = integers(call.get("block_tables"), 2), integers(call.get("seq_lens"), 1).tolist()
    if not call.get("uses_shared_paged_kv_idx", True):
        call.fail("one table of pages for keys and values", "two")
    if "context" in call.function:
        bounds = integers(call.get("cum_seq_lens_q"), 1)
        if not call.get("causal", True):
            call.fail("causal attention", "causal False")
    else:
        if call.get("cum_seq_lens_q") is not None:
            call.fail("as many queries in each request", "cum_seq_lens_q")
        bounds = np.arange(len(lengths) + 1) * (_number(call, "q_len_per_req", 1) or 1)
    cache = PagedCache(call, call.get("kv_cache"), layout, None, lengths)
    cache.pages = [row[:-(-length // cache.page_size)] for row, length in zip(table, lengths)]
    sinks = call.get("sinks")
    output, lse, factor = _outputs(call, "log2")
    return Attention(call, 0, number, q, output, lse, factor, bounds, lengths, cache, _number(call, "bmm1_scale", 1.0),
                     None, _window(_number(call, "window_left", -1)), sinks[0] if isinstance(sinks, list) else sinks,
                     _number(call, "bmm2_scale", 1.0))
