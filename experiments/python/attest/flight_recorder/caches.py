"""Keys and values of single requests, from how FlashInfer keeps those of a batch."""
import numpy as np

from ..importing.source_array import SourceArray, shape_text
from .stored import rows


class FlatCache:
    """Keys and values [tokens, Hkv, D] (NHD) or [Hkv, tokens, D] (HND) of all requests, one behind the other."""

    def __init__(self, call, k, v, starts, layout):
        self.pair, self.starts, self.layout = (k, v), starts, layout
        tokens, heads = (0, 1) if layout == "NHD" else (1, 0)
        if 0 in k.shape + v.shape or k.shape[:2] != v.shape[:2] or k.shape[tokens] < starts[-1]:
            call.fail(f"keys and as many values of {starts[-1]} tokens",
                      f"{shape_text(k.shape)} and {shape_text(v.shape)}")
        self.shape = k.shape[heads], k.shape[2], v.shape[2]

    def read(self, which, request):
        """"k" or "v" of a request, [T, Hkv, D]."""
        array = self.pair["kv".index(which)]
        begin, end = int(self.starts[request]), int(self.starts[request + 1])
        if self.layout == "NHD":
            return rows(array, begin, end - begin)
        return rows(array, 0, array.shape[0])[:, begin:end].transpose(1, 0, 2)

    def geometry(self):
        """The numbers of KV heads, of channels of keys, and of values."""
        return self.shape


class PagedCache:
    """Pages [page, 2, P, Hkv, D] (NHD) or [page, 2, Hkv, P, D] (HND), where 2 is keys and values; or a pair of tensors
    without that axis. `pages`: the page numbers of each request."""

    def __init__(self, call, layout, pages, lengths, name):
        self.pages, self.lengths, self.layout = pages, lengths, layout
        cache = call.get(name)
        self.together = not isinstance(cache, list)
        self.pair, axes = [cache, cache] if self.together else cache, 5 if self.together else 4
        if len(self.pair) != 2 or not all(
                isinstance(array, SourceArray) and len(array.shape) == axes and 0 not in array.shape
                and (not self.together or array.shape[1] == 2) for array in self.pair):
            call.fail(f"{name} of keys and values in pages, {axes} axes", "none")
        self.page_size = self.pair[0].shape[-3 if layout == "NHD" else -2]
        if self.pair[0].shape[:-1] != self.pair[1].shape[:-1]:
            call.fail("as many pages of values as of keys", shape_text(self.pair[1].shape))

    def geometry(self):
        """The numbers of KV heads, of channels of keys, and of values."""
        at = -2 if self.layout == "NHD" else -3
        return self.pair[0].shape[at], self.pair[0].shape[-1], self.pair[1].shape[-1]

    def read(self, which, request):
        """"k" or "v" of a request, [T, Hkv, D]; the last page is cut to the request's length."""
        index = "kv".index(which)
        found = np.stack([rows(self.pair[index], int(page), 1)[0] for page in self.pages[request]])
        found = found[:, index] if self.together else found
        if self.layout == "HND":
            found = found.swapaxes(1, 2)
        return found.reshape(-1, *found.shape[2:])[:self.lengths[request]]
