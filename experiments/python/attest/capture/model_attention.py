"""The attention that a model computes, for an attention function of our own that stands in its place.

`hook` makes a function the model's attention function. It gets q, k and v exactly as attention multiplies them: after
RoPE and q/k-norm, before the softmax scale. `model_attention` is what the model would have computed: the library's
sdpa, or the model's eager function in float32 where there is a soft-cap or learned sinks.
"""
import sys

import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, eager_mask, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from ..base.errors import InputError
from .softmax_attention import MAX_SCORES_PER_STEP

QUERY_BLOCK = 1024  # queries per step where a whole mask would be T x T


class LazyMask:
    """The arguments of a call to the library's mask function. Rows of the mask are made when a block of queries needs
    them."""

    def __init__(self, **request):
        self.request = request

    def whole(self, make_mask):
        """The mask of all rows, for attention that is not captured."""
        return make_mask(**self.request)

    def rows(self, make_mask, begin, end):
        """The mask of the rows from `begin` up to `end` alone."""
        offset = self.request["q_offset"] + begin
        return make_mask(**{**self.request, "q_length": end - begin, "q_offset": offset, "allow_is_causal_skip": False})

    def window(self):
        """The window of a mask that hides keys by one. Some models tell the mask function alone (PhiMoE)."""
        window = self.request.get("local_size")
        return window if window is not None and window < self.request["kv_length"] else None

    def contiguous(self):
        """What generate() asks of a mask for a static cache alone."""
        raise InputError("a static cache has keys behind the query, expected a cache that grows (cache_implementation)")

    def is_plain_causal(self):
        """True if the library would make no mask and pass is_causal to sdpa instead."""
        window = self.request.get("local_size")
        return (self.request.get("allow_is_causal_skip", True) and self.request.get("attention_mask") is None
                and (window is None or self.request["kv_length"] < window))


def hook(model, name, function):
    """Makes `function` the attention function of the model, and LazyMask its mask function, under `name`."""
    AttentionInterface.register(name, function)
    AttentionMaskInterface.register(name, LazyMask)
    try:
        model.set_attn_implementation(name)
    except ValueError as error:
        raise InputError(f"{type(model).__name__}: its attention cannot be hooked ({error})") from error


def window_of(mask, options):
    """The sliding window of a call, or None."""
    window = options.get("sliding_window")
    return mask.window() if window is None and isinstance(mask, LazyMask) else window


def model_attention(has_sdpa, module, query, key, value, mask, options):
    """The model's own attention output [B, N, Hq, Dv]. `has_sdpa`: whether the model supports it."""
    if has_sdpa and options.get("softcap") is None and options.get("s_aux") is None:  # which sdpa lacks
        return _in_blocks(sdpa_attention_forward, sdpa_mask, module, query, key, value, mask, options)
    eager = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if eager is None:
        raise InputError(f"layer {getattr(module, 'layer_idx', None)}: {type(module).__name__} brings no attention "
                         "function that can be run")
    # In the model's type it would round the scores, by up to 0.25 for a score of 100 in bfloat16. Engines compute them
    # in float32, as sdpa does.
    output = _in_blocks(eager, eager_mask, module, query.float(), key.float(), value.float(), mask, options)
    return output.to(query.dtype)


def _in_blocks(attend, make_mask, module, query, key, value, mask, options):
    """In blocks of queries if the mask would be T x T."""
    if isinstance(mask, LazyMask):
        num_queries, step = query.shape[2], QUERY_BLOCK
        if make_mask is eager_mask:
            step = min(step, max(1, MAX_SCORES_PER_STEP // (query.shape[1] * key.shape[2])))
        if num_queries > step and not (make_mask is sdpa_mask and mask.is_plain_causal()):
            blocks = [(b, min(b + step, num_queries)) for b in range(0, num_queries, step)]
            return torch.cat([attend(module, query[:, :, b:e], key, value, mask.rows(make_mask, b, e), **options)[0]
                              for b, e in blocks], dim=1)
        mask = mask.whole(make_mask)
    return attend(module, query, key, value, mask, **options)[0]
