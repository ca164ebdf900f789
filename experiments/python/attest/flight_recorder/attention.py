"""What FlashInfer's attention functions were given, as attention of single requests."""
import dataclasses

import numpy as np

from ..base.errors import InputError
from ..base.files import in_quotes
from ..importing.source_array import SourceArray, shape_text
from .caches import FlatCache, PagedCache
from .stored import integers

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
MOST = 1 << 20  # of a whole number
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
        """Rows of q of a request."""
        return self.bounds[request + 1] - self.bounds[request]


def attention_calls(calls, folder):
    """The Attention of each call that is one. A wrapper's layers are its calls of run, in order, since it was
    planned."""
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
            call.fail("queries and keys after their rotation",
                      f"pos_encoding_mode {in_quotes(call.get('pos_encoding_mode'))}")


def _number(call, name, default=None):
    value = call.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float, type(None))):
        call.fail(f"a number {name}", "a tensor or another value, which attest does not read")
    if isinstance(value, int) and abs(value) >> 63:  # Python's may be too large for a float
        call.fail(f"a number {name}", "one of more than 64 bits")
    return value


def _whole(call, name, default=None):
    """A whole number above 0."""
    value = _number(call, name, default)
    if not isinstance(value, int) or not 0 < value <= MOST:
        call.fail(f"a whole number {name} above 0", in_quotes(value))
    return value


def _tensor(call, name, axes):
    value = call.get(name)
    if not isinstance(value, SourceArray) or len(value.shape) != axes:
        call.fail(f"a tensor {name} of {axes} axes",
                  shape_text(value.shape) if isinstance(value, SourceArray) else "none")
    return value


def _bounds(call, name):
    """[requests + 1] ascending from 0."""
    found = integers(_tensor(call, name, 1), 1)
    if not len(found) or found[0] != 0 or (np.diff(found) < 0).any():
        call.fail(f"{name} that ascend from 0", in_quotes(found.tolist()[:9]))
    return found


def _scales(call, *names):
    """The product of scales that are numbers."""
    product = 1.0
    for name in names:
        product *= float(_number(call, name, 1.0))
    return product


def _layout(call):
    layout = call.get("kv_layout", "NHD") if call is not None else "NHD"
    if layout not in ("NHD", "HND"):
        call.fail("kv_layout NHD or HND", in_quotes(layout))
    return layout


def _window(call):
    """FlashInfer counts the keys left of the query's own; below 0 there is no window."""
    left = _number(call, "window_left", -1)
    if not isinstance(left, int) or left > MOST << 10:
        call.fail("a whole number window_left", in_quotes(left))
    return None if left < 0 else left + 1


def _softcap(call):
    """FlashInfer's 0 is none."""
    return float(_number(call, "logits_soft_cap", 0)) or None


def _outputs(call):
    """The outputs of a call: (output, lse or None)."""
    return call.results[0], call.results[1] if len(call.results) > 1 else None


def of_wrapper(call, plan, made, number, layer):
    """The attention of a call of a wrapper's run(), whose lengths and tables stand in its plan()."""
    _refuse_what_changes_attention(call, plan, made)
    if any(name.startswith("*") for name in call.given):
        call.fail("arguments of attention itself", "more, of a kernel of its own")
    if made is None:
        call.fail("the call that made its object", "none (FLASHINFER_DUMP_INCLUDE must take __init__, too)")
    given, decode, layout = dict(plan.given), "Decode" in call.function, _layout(made)
    for old, new in (PLAN_OF_DECODE if decode else {}).items():
        given[new] = given.get(old)
    plan = dataclasses.replace(plan, given=given)
    scale = (_number(plan, "sm_scale") or _whole(plan, "head_dim_qk") ** -0.5) * _scales(call, "q_scale", "k_scale")
    bounds = None if decode else _bounds(plan, "qo_indptr")
    if "Ragged" in call.function:
        starts = _bounds(plan, "kv_indptr")
        lengths = np.diff(starts).tolist()
        cache = FlatCache(call, _tensor(call, "k", 3), _tensor(call, "v", 3), starts, layout)
    else:
        indices, last = (integers(_tensor(plan, f"paged_kv_{name}", 1), 1) for name in ("indices", "last_page_len"))
        indptr, size = _bounds(plan, "paged_kv_indptr"), _whole(plan, "page_size")
        if len(last) + 1 != len(indptr) or indptr[-1] > len(indices) or (last < 0).any() or (last > size).any():
            plan.fail("page tables that fit each other", f"{len(last)} last pages, {len(indptr) - 1} requests, "
                      f"{len(indices)} of {int(indptr[-1])} pages")
        pages = [indices[begin:end] for begin, end in zip(indptr, indptr[1:])]
        lengths = [(len(p) - 1) * size + int(n) if len(p) else 0 for p, n in zip(pages, last)]
        cache = PagedCache(call, layout, pages, lengths, "paged_kv_cache")
        if cache.page_size != size:
            call.fail(f"pages of {size} tokens", cache.page_size)
        if decode:
            bounds = np.arange(len(pages) + 1)
            if _number(call, "q_len_per_req", 1) != 1:
                call.fail("one query per request", in_quotes(call.get("q_len_per_req")))
    if not decode and not plan.get("causal", False) and (np.diff(bounds) > 1).any():
        call.fail("causal attention", "causal False")
    base = call.get("lse_base", "log2")
    if base not in ("log2", "ln") or call.get("lse_layout", "NH") != "NH":
        call.fail("log-sum-exps in base 2 or e, of queries and heads", in_quotes(f"{base}, {call.get('lse_layout')}"))
    output, lse = _outputs(call)
    sinks = None if call.get("sinks") is None else _tensor(call, "sinks", 1)
    return Attention(call, layer, number, _tensor(call, "q", 3), output, lse, LN_2 if base == "log2" else 1.0, bounds,
                     lengths, cache, scale, _softcap(plan),
                     _window(call if call.get("window_left") is not None else plan), sinks,
                     _scales(call, "v_scale"))


def of_function(call, number):
    """The attention of a call that has everything among its own arguments."""
    _refuse_what_changes_attention(call)
    return (of_trtllm if call.function.startswith("trtllm") else of_single)(call, number)


def of_single(call, number):
    """The attention of one request. k and v [T, Hkv, D] (NHD) or [Hkv, T, D]; a decoded query has no axis of tokens."""
    decode, layout, k = "decode" in call.function, _layout(call), _tensor(call, "k", 3)
    q, length = _tensor(call, "q", 2 if decode else 3), k.shape[0 if layout == "NHD" else 1]
    output, lse = _outputs(call)
    if decode:
        q, output, lse = (None if array is None else with_axis(array) for array in (q, output, lse))
    elif not call.get("causal", False) and q.shape[0] > 1:
        call.fail("causal attention", "causal False")
    scale = (_number(call, "sm_scale") or max(1, q.shape[-1]) ** -0.5) * _scales(call, "q_scale", "k_scale")
    return Attention(call, 0, number, q, output, lse, LN_2, np.array([0, q.shape[0]]), [length],
                     FlatCache(call, k, _tensor(call, "v", 3), [0, length], layout), scale,
                     _softcap(call), _window(call), None,
                     _scales(call, "v_scale"))


def with_axis(array):
    """A layer of one request, as those of several are stored."""
    return dataclasses.replace(array, shape=(1, *array.shape))


def of_trtllm(call, number):
    """Requests have rows of a table of pages, [requests, most pages]."""
    layout = _layout(call) if "kv_layout" in call.given else "HND"
    table = integers(_tensor(call, "block_tables", 2), 2)
    lengths = integers(_tensor(call, "seq_lens", 1), 1).tolist()
    if not call.get("uses_shared_paged_kv_idx", True):
        call.fail("one table of pages for keys and values", "two")
    if "context" in call.function:
        bounds = _bounds(call, "cum_seq_lens_q")
        if not call.get("causal", True):
            call.fail("causal attention", "causal False")
    else:
        if call.get("cum_seq_lens_q") is not None:
            call.fail("as many queries in each request", "cum_seq_lens_q")
        bounds = np.arange(len(lengths) + 1) * _whole(call, "q_len_per_req", 1)
    cache = PagedCache(call, layout, None, lengths, "kv_cache")
    if len(table) < len(lengths) or any(not 0 <= n <= table.shape[1] * cache.page_size for n in lengths):
        call.fail(f"pages for {len(lengths)} requests in block_tables", shape_text(table.shape))
    cache.pages = [row[:-(-length // cache.page_size)] for row, length in zip(table, lengths)]
    sinks, (output, lse) = call.get("sinks"), _outputs(call)
    sinks = sinks[0] if isinstance(sinks, list) and len(sinks) == 1 else sinks
    if sinks is not None and not isinstance(sinks, SourceArray):
        call.fail("a tensor of sinks", "another value")
    return Attention(call, 0, number, _tensor(call, "query", 3), output, lse, LN_2, bounds, lengths, cache,
                     _scales(call, "bmm1_scale"), None, _window(call), sinks,
                     _scales(call, "bmm2_scale"))
