"""What `attest import` says of the dump that it has written."""
import os

from ..base.printing import json_text, print_report
from ..base.errors import printable


def report(request, samples, layers, geometry, size, seconds, more=""):
    """`geometry`: the attributes of the dump. `size`: the bytes of q, k and v. `more`: lines of the text alone."""
    target, value_dim = request["target"], geometry.get("value_dim", geometry["head_dim"])
    if request["json"]:
        return print_report(json_text(
            {"path": os.fsencode(target).decode(errors="replace"), "samples": samples, "layers": layers,
             "query_heads": int(geometry["num_query_heads"]), "kv_heads": int(geometry["num_kv_heads"]),
             "head_dim": int(geometry["head_dim"]), "value_dim": int(value_dim), "bytes": size, "seconds": seconds}))
    print_report(f"{printable(target)}: {samples} sample(s), {layers} layer(s) in all, "
                 f"{geometry['num_query_heads']} query and {geometry['num_kv_heads']} KV heads of "
                 f"{geometry['head_dim']} channels (values {value_dim}), {size / 1e6:.1f} MB in {seconds:.1f} s{more}")
