"""Attention of a Hugging Face decoder through a selector, from Python:

    attention = attach(model, "ffd", 5.0)   # prompts stay dense, what is decoded goes through the selector
    print(model.generate(**tokenizer(prompt, return_tensors="pt"), max_new_tokens=64))
    print(attention.kept_ratio())

It is for the models that attest capture supports, and works on what capture records: q, k and v with the soft-cap,
window, sinks and scale of the call, and latent attention in the absorbed form. Passes and layers that do not go through
the selector have the model's own attention (capture/model_attention.py).
"""
import torch
from transformers import DynamicCache
from transformers.cache_utils import Cache, DynamicLayer, DynamicSlidingWindowLayer
from transformers.masking_utils import sdpa_mask

from ..base.errors import InputError, first_line
from ..capture.check import check_layer
from ..capture.latent_attention import AbsorbedAttention, Latents, is_latent
from ..capture.model_attention import LazyMask, QUERY_BLOCK, hook, model_attention, window_of
from ..capture.softmax_attention import SoftmaxAttention
from .library import SelectorError, check_device, check_selector, load_library


class AttentionError(InputError, ValueError):
    """A model, batch or cache that cannot go through a selector."""


def attach(model, selector="exact", setting=0.0, *, layers=None, library=None):
    """Attaches a SelectorAttention to a model: from the next pass on it decodes through the selector."""
    load_library(library)
    check_device(model.device)
    attention = SelectorAttention(model)
    try:
        attention.use(selector, setting, layers)
        attention.install()
    except Exception:
        attention.detach()
        raise
    return attention


def _attention_of(module, query, key, value, attention_mask, **options):
    """The attention function "attest"."""
    attention = getattr(module, "attest", None)
    if attention is None:
        raise AttentionError(f"{type(module).__name__}: nothing is attached to this model; call attach(model, ...)")
    return attention.attend(module, query, key, value, attention_mask, options), None


class SelectorAttention:
    """What `attach` returns. Made by it alone."""

    def __init__(self, model):
        if any("attest" in vars(module) for module in model.modules()):
            raise AttentionError(f"{type(model).__name__}: is attached already; use() changes the selector")
        self.model, self.config = model, model.config.get_text_config()
        self.has_sdpa = getattr(model, "_supports_sdpa", False)
        self.selecting = None  # None: passes with keys before their first query; or True: all; False: none
        self.previous = {"": model.config._attn_implementation}
        for name in model.config.sub_configs:
            if getattr(model.config, name, None) is not None:
                self.previous[name] = getattr(model.config, name)._attn_implementation
        self.checked = set()  # layers whose attention was compared with the model's own
        self.called = False  # whether the model has called any attention through the interface
        self.latents = None
        self.reset()

    def install(self):
        """Replaces the attention of all modules, and watches the passes of the model."""
        self.latents = Latents(self.model)
        for module in self.model.modules():
            module.attest = self
        self.watch = self.model.register_forward_hook(self._after_pass)
        hook(self.model, "attest", _attention_of)

    def _after_pass(self, *_):
        captured = self.config._attn_implementation.startswith("attest_")  # a pass of attest.capture
        if not (self.called or captured):  # Mamba, Bloom: nothing would go through a selector, whatever is asked for
            raise AttentionError(f"{type(self.model).__name__}: has no attention that calls the library's attention "
                                 "interface, so that none can go through a selector")

    def detach(self):
        """Makes the model what it was."""
        if self.latents is not None:
            self.latents.remove()
            self.watch.remove()
            self.model.set_attn_implementation(self.previous)
        for module in self.model.modules():
            vars(module).pop("attest", None)

    def use(self, selector, setting=0.0, layers=None):
        """From the next pass on: the selector NAME[:option=value,...], its setting, and the layers that go through it
        (all if None); the others are dense."""
        num_layers = self.config.num_hidden_layers
        layers = None if layers is None else frozenset(layers)
        for layer in sorted(layers or ()):
            if not 0 <= layer < num_layers:
                raise SelectorError(f"layers: there is no layer {layer}, the model has {num_layers}")
        # Layers differ to a selector by the heads that it names alone.
        named = range(num_layers) if layers is None else sorted(layers)
        check_selector(selector, float(setting), named if "dense_heads" in selector else (0,), self._num_kv_heads())
        self.selector, self.setting, self.layers = selector, float(setting), layers

    def _num_kv_heads(self):
        """The KV heads of a layer; the largest number, where layers differ. Latent attention has one, which all query
        heads share, and so has a model without attention, which is refused when it runs."""
        if getattr(self.config, "kv_lora_rank", None) is not None:
            return 1
        heads = getattr(self.config, "num_key_value_heads", None) or getattr(self.config, "num_attention_heads", 1)
        return max(heads) if isinstance(heads, (list, tuple)) else heads

    # -- what was kept

    def reset(self):
        """Forgets what was kept, before what the kept share is to be told of."""
        self.kept, self.rows = 0.0, 0

    def kept_ratio(self):
        """Mean of kept / visible tokens over the passes since reset() that went through the selector, their layers
        (1 for those left dense), KV heads and queries. 1 if there was no such pass."""
        return float(self.kept) / self.rows if self.rows else 1.0

    # -- caches that can be cut back

    def new_cache(self):
        """An empty cache for past_key_values. It keeps all tokens in layers with a sliding window, too, so that crop
        can cut it back to any length."""
        cache = DynamicCache(config=self.model.config)
        if all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers):
            return Cache(layers=[DynamicLayer() for _ in cache.layers])
        return cache  # of a hybrid model

    def can_crop(self, cache):
        """False for a hybrid model, and for a cache of the library that drops tokens."""
        return all(type(layer) is DynamicLayer for layer in cache.layers)

    def crop(self, cache, length):
        """Cuts a cache from new_cache back to its first `length` tokens."""
        if not self.can_crop(cache):
            kinds = {type(layer).__name__ for layer in cache.layers}
            raise AttentionError("expected a cache from new_cache() that keeps all tokens, found layers that cannot be "
                                 f"cut back ({', '.join(sorted(kinds))})")
        present = cache.get_seq_length()
        if not 0 <= length <= present:
            raise AttentionError(f"cannot cut a cache of {present} tokens to {length}")
        if length < present:
            cache.crop(length - present)

    # -- one layer of a pass

    def attend(self, module, query, key, value, mask, options):
        """The attention output [B, N, Hq, Dv]."""
        self.called = True
        if getattr(module, "layer_idx", None) is None:  # not of the decoder
            return model_attention(self.has_sdpa, module, query, key, value, mask, options)
        selecting = key.shape[2] > query.shape[2] if self.selecting is None else self.selecting
        if self.selecting is not False:
            _refuse_padding(mask)
        if selecting and (self.layers is None or module.layer_idx in self.layers):
            output = self._select(module, query, key, value, mask, options)
        else:
            output = model_attention(self.has_sdpa, module, query, key, value, mask, options)
            if selecting:
                self._count(1.0, query.shape[0] * (1 if is_latent(module) else key.shape[1]) * query.shape[2])
        self.latents.forget(module)
        return output

    def _select(self, module, query, key, value, mask, options):
        layer, window = module.layer_idx, window_of(mask, options)
        queries, tokens = query.shape[2], key.shape[2]
        _check_mask(layer, mask, queries, tokens, window)
        own = None
        if layer not in self.checked:  # before what the hooks of latents saw is taken
            own = model_attention(self.has_sdpa, module, query, key, value, mask, options)
        scale, softcap, sinks = options.get("scaling"), options.get("softcap"), options.get("s_aux")
        scale = query.shape[-1] ** -0.5 if scale is None else float(scale)
        expansion = None
        if is_latent(module):
            query, key, value, expansion = self._absorbed(module, query, key)
        if own is not None:
            attention = SoftmaxAttention(query[0], key[0], value[0], range(tokens - queries, tokens), scale, softcap,
                                         window, sinks, expansion)
            check_layer(layer, attention, own[0])
            self.checked.add(layer)
        try:
            out, _, kept = torch.ops.attest.attend(query, key, value, self.selector, self.setting, layer, scale,
                                                   softcap or 0.0, window or 0, sinks,
                                                   values_in_keys=expansion is not None)
        except (ValueError, NotImplementedError) as error:
            raise AttentionError(f"layer {layer}: {first_line(error)}") from error
        visible = torch.arange(tokens - queries + 1, tokens + 1, device=kept.device)
        self._count((kept.double() / visible.clamp(max=window or tokens)).mean(), kept.numel())
        if expansion is not None:
            out = torch.einsum("bhnr,rhv->bhnv", out.float(), expansion).to(query.dtype)
        return out.transpose(1, 2).contiguous()

    def _absorbed(self, module, query, key):
        """q [B, Hq, N, rank + rope], k and v [B, 1, T, ...] of latent attention, and W_UV [rank, Hq, Dv]."""
        tokens = key.shape[2]
        latents, matrix = self.latents.take(module, module.layer_idx, len(query))
        if latents.shape[1] != tokens:
            raise AttentionError(f"layer {module.layer_idx}: expected the latents of all {tokens} tokens, found "
                                 f"{latents.shape[1]}: this version of transformers caches expanded keys")
        each = [AbsorbedAttention(latent, matrix, module, q, k, slice(None), tokens)
                for latent, q, k in zip(latents, query, key)]
        return (*(torch.stack([getattr(one, name) for one in each]) for name in ("query", "key", "value")),
                each[0].expansion)

    def _count(self, ratio, rows):
        self.kept, self.rows = self.kept + ratio * rows, self.rows + rows


def _refuse_padding(mask):
    padding = mask.request.get("attention_mask") if isinstance(mask, LazyMask) else None
    if padding is None or vars(mask).get("has_no_padding"):  # one object for all layers of a pass
        return
    if not padding.all():
        raise AttentionError("a batch with padding cannot go through a selector: expected sequences of one length, "
                             "found an attention_mask with zeros")
    mask.has_no_padding = True


def _check_mask(layer, mask, queries, tokens, window):
    """Refuses a mask under which query n does not see just the keys up to its own, within the window."""
    if mask is None and queries in (1, tokens):
        return
    seen = (queries, tokens, window)
    if seen in vars(mask).setdefault("causal", set()) if isinstance(mask, LazyMask) else False:
        return
    for begin in range(0, queries, QUERY_BLOCK):
        end = min(begin + QUERY_BLOCK, queries)
        if isinstance(mask, LazyMask):
            rows = mask.rows(sdpa_mask, begin, end)
        else:
            rows = None if mask is None else mask[:, :, begin:end]
        if rows is not None and rows.dtype != torch.bool:
            rows = rows == 0
        device = None if rows is None else rows.device
        token = torch.arange(tokens, device=device)
        position = torch.arange(tokens - queries + begin, tokens - queries + end, device=device)[:, None]
        expected = (token <= position) & (token > position - (window or tokens))
        if rows is None or rows.shape[-2:] != expected.shape or not (rows == expected).all():
            raise AttentionError(f"layer {layer}: expected queries that are the last tokens and see all keys before "
                                 f"them{f' within a window of {window}' if window else ''}, found another mask")
    if isinstance(mask, LazyMask):
        mask.causal.add(seen)
