"""Makes inputs for the readers of `attest import`: sound files with a few changes in their headers, directories and
bytes."""
import json
import pathlib
import struct
import zlib

from array_files import archive, deflate, npy, safetensors, tensor

FILE_NAMES = {"safetensors": "x.safetensors", "npz": "x.npz", "index": "model.safetensors.index.json",
              "recording": "call/metadata.jsonl"}

ODD_NUMBERS = [0, 1, 2, 3, -1, 7, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63, 2**64 - 1, 2**64,
               10**30]
ODD_TEXTS = ["", "/", "..", ".", "a/b", "layers.0.q", "layers.99999.k", "layers.-1.v", "q", "k", "v", "0", "\0", "\n",
             "\x1b[2J", "\ud800", "\u202e", "ä" * 300, "F32", "f32", "BF16", "F64", "U16", "F8_E4M3", "__metadata__",
             "x" * 5000, "{l}", "'", "\\", "<f4", "|O", "|V2", ">f4", "layer_0.q", "q_0", "q0"]
ROLES = {"q": (2, 3, 4), "k": (1, 5, 4), "v": (1, 5, 4)}
ITEM = {"F32": 4, "F16": 2, "BF16": 2}


def make(reader, random):
    content = {"safetensors": safetensors_file, "npz": npz_file, "index": index_file,
               "recording": recording_file}[reader](random)
    return damaged(content, random) if random.random() < 0.2 else content


def damaged(content, random):
    data = bytearray(content)
    for _ in range(random.randint(1, 3)):
        if not data:
            break
        at = random.randrange(len(data))
        kind = random.randrange(6)
        if kind == 0:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            data[at] = random.randrange(256)
        elif kind == 2:
            size = random.choice((1, 2, 4, 8))
            data[at:at + size] = (random.choice(ODD_NUMBERS) % 2**(8 * size)).to_bytes(size, "little")
        elif kind == 3:
            begin = random.randrange(len(data))
            piece = data[begin:begin + random.randint(1, 64)]
            data[at:at + len(piece)] = piece
        elif kind == 4:
            data[at:at] = data[:random.randint(1, 40)]
        else:
            del data[at:at + random.randint(1, 20)]
    return bytes(data[:random.randrange(len(data) + 1)] if random.random() < 0.1 else data)


def odd_value(random, depth=0):
    kind = random.randrange(9 if depth < 3 else 6)
    if kind < 2:
        return random.choice(ODD_NUMBERS)
    if kind == 2:
        return random.choice(ODD_TEXTS)
    if kind == 3:
        return random.choice((None, True, False, 0.5, -0.0, 1e300, float("nan"), float("inf")))
    if kind in (4, 5):
        return [random.choice(ODD_NUMBERS) for _ in range(random.choice((0, 1, 2, 3, 4, 40)))]
    if kind == 6:
        return {random.choice(ODD_TEXTS): odd_value(random, depth + 1) for _ in range(random.randint(0, 3))}
    deep = 1
    for _ in range(random.choice((1, 5, 100, 2000))):
        deep = [deep] if kind == 7 else {"a": deep}
    return deep


def nodes(value, path=()):
    """The places of a tree, to a few levels."""
    yield path
    if len(path) == 6:
        return
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from nodes(child, (*path, key))


def changed_tree(tree, random):
    """One change at any place: another value, gone, renamed, twice."""
    path = random.choice(list(nodes(tree)))
    if not path:
        return odd_value(random) if random.random() < 0.1 else tree
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    key, kind = path[-1], random.randrange(5)
    if kind < 2:
        parent[key] = odd_value(random)
    elif kind == 2:
        del parent[key]
    elif kind == 3 and isinstance(parent, dict):
        parent[random.choice(ODD_TEXTS)] = parent.pop(key)
    elif type(parent[key]) is int:
        parent[key] += random.choice((-4, -2, -1, 1, 2, 4))
    elif isinstance(parent[key], list):
        parent[key].append(random.choice(ODD_NUMBERS))
    return tree


def json_text(tree, random):
    """The text of a tree; at times with names that are there twice, or damaged."""
    try:
        text = json.dumps(tree, ensure_ascii=random.random() < 0.9)
    except RecursionError:
        text = "[" * 5000
    if random.random() < 0.05:
        at = text.find("{") + 1
        text = text[:at] + random.choice(('"x": 1, "x": 2, ', '"layers.0.q": {}, ', '"__metadata__": {}, ')) + text[at:]
    if random.random() < 0.05:
        begin = random.randrange(len(text) + 1)
        piece = text[begin:begin + random.randint(1, 80)]
        at = random.randrange(len(text) + 1)
        text = text[:at] + piece * random.choice((1, 1, 2, 500)) + text[at + random.choice((0, len(piece))):]
    return text.encode("utf-8", "surrogatepass") + b" " * random.choice((0, 0, 3))


def sound_header(random):
    """A header of one to three layers, and the bytes of data that it describes."""
    header, at, dtype = {}, 0, random.choice(list(ITEM))
    for layer in range(random.randint(1, 3)):
        for role, shape in ROLES.items():
            size = ITEM[dtype] * shape[0] * shape[1] * shape[2]
            header[f"layers.{layer}.{role}"] = tensor(dtype, list(shape), at, at + size)
            at += size
    if random.random() < 0.3:
        header["__metadata__"] = {"format": "pt"}
    return header, at


def safetensors_file(random):
    header, size = sound_header(random)
    for _ in range(random.choice((0, 1, 1, 2))):
        header = changed_tree(header, random)
    size += random.choice((0,) * 12 + (-1, 1, 4, -8))
    content = safetensors(json_text(header, random), bytes(i % 251 for i in range(max(0, size))))
    if random.random() < 0.08:
        content = struct.pack("<Q", random.choice(ODD_NUMBERS) % 2**64) + content[8:]
    return content


DESCRIPTIONS = ["<f4", "<f2", "<f8", ">f4", "<u2", "<i2", "|V2", "|O", "|u1", "<U9", "|S0", "<f16", "V2147483647",
                "<M8[ns]"]


SHAPE_TEXTS = ["()", "(0,)", "(-1,)", "(1", "[1]", "(10**9,)", "(4294967296, 4294967296)", "('a',)", "(1.5,)",
               "(True,)",
               "(" * 300, "(2, 3, 4) + (1,)", str((1,) * 40), f"({2**62},)", f"({2**70},)", "(2, 3, 4, 1)", "(24,)"]
HEADERS = ["", "{}", "42", "[" * 9000, "1" + "+1" * 4000,
           "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
           "__import__('os').abort()", "'" * 5000, "{" * 500, "-" * 8000 + "1", "\\" * 99, "b'\\xff'",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}"]


def npy_content(role, changes, random):
    """An array of the role's shape, with these kinds of changes."""
    shape = ROLES[role]
    descr = random.choice(DESCRIPTIONS) if "type" in changes else "<f4"
    shape_text = random.choice(SHAPE_TEXTS) if "shape" in changes else str(shape)
    order = random.choice(("1", "None", "'x'", "True")) if "order" in changes else "False"
    header = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape_text}, }}"
    if "header" in changes:
        header = random.choice(HEADERS + [header + "x", header.replace("descr", "desc")])
    size = 4 * shape[0] * shape[1] * shape[2] + (random.choice((-4, -1, 1, 4)) if "data" in changes else 0)
    data = bytes(i % 7 for i in range(size))
    content = npy(header, data, random.choice((1, 2, 3)) if "version" in changes else 1)
    return damaged(content, random) if "bytes" in changes else content


CONTENT_CHANGES = ["type", "shape", "order", "header", "data", "version", "bytes"]
MEMBER_CHANGES = ["size", "stored", "offset", "crc", "method", "flags", "inflated", "zip64"]


def member(name, role, changes, random):
    content, deflated = npy_content(role, changes, random), random.random() < 0.5
    fields = dict(name=name.encode("utf-8", "surrogatepass") + b".npy", content=content,
                  data=deflate(content) if deflated else content, method=8 if deflated else 0, crc=zlib.crc32(content))
    if "zip64" in changes:
        fields["zip64"] = True
    for field in ("size", "stored", "offset", "crc"):
        if field in changes:
            odd = random.choice((len(content) - 1, len(content) + 1, len(content) * 1000, random.choice(ODD_NUMBERS)))
            fields[field] = odd % 2**(64 if "zip64" in changes and field != "crc" else 32)
    if "method" in changes:
        fields["method"] = random.choice((0, 8, 9, 12, 14, 99))
    if "flags" in changes:
        fields["flags"] = random.choice((1, 8, 0x40, 0x800, 0xFFFF))
    if "inflated" in changes:  # to other bytes than it declares
        fields["data"] = deflate(bytes(random.choice((0, 10, 100_000)))) if deflated else content + b"x"
    return fields


def npz_file(random):
    names = [(f"layers.{layer}.{role}", role) for layer in range(random.randint(1, 2)) for role in ROLES]
    at, members = random.randrange(len(names)), []
    for number, (name, role) in enumerate(names):
        changes = set()
        if number == at:
            changes |= set(random.choices(CONTENT_CHANGES + MEMBER_CHANGES, k=random.choice((0, 1, 1, 2, 3))))
            name = random.choice(ODD_TEXTS) if random.random() < 0.1 else name
        members.append(member(name, role, changes, random))
    claims = {}
    if random.random() < 0.1:
        claims["zip64_end"] = True
    if random.random() < 0.04:
        claims["members"] = random.choice((0, 1, 5, 100, 65535))
    if random.random() < 0.04:
        claims["directory_bytes"] = random.choice((0, 1, 46, 100, 2**31, 2**32 - 1))
    content = archive(*members, **claims)
    return content + b"comment" if random.random() < 0.03 else content


def index_file(random):
    index = {"metadata": {"total_size": 8}, "weight_map": {
        "layers.0.q": "a.safetensors", "layers.0.k": "a.safetensors"}}
    for _ in range(random.choice((0, 1, 1, 2))):
        index = changed_tree(index, random)
    return json_text(index, random)


def write_indexed_file(folder):
    """The file that a sound index names."""
    header, at = {}, 0
    for role, shape in ROLES.items():
        size = 4 * shape[0] * shape[1] * shape[2]
        header[f"layers.0.{role}"] = tensor("F32", list(shape), at, at + size)
        at += size
    (pathlib.Path(folder) / "a.safetensors").write_bytes(safetensors(header, bytes(at)))


# A call of FlashInfer's flight recorder: 2 query heads, 1 KV head of 4 channels, 5 tokens, in pages of 2.
RECORDED = {"arg_0": ("F16", (1, 2, 4)), "arg_1": ("F16", (5, 1, 4)), "arg_2": ("F16", (5, 1, 4)),
            "pages": ("F16", (4, 2, 1, 2, 4)), "table": ("I32", (1, 3)), "lengths": ("I32", (1,))}
SIGNATURES = {"single_prefill_with_kv_cache": "(q: Tensor, k: Tensor, v: Tensor, causal: bool = False)",
              "trtllm_batch_decode_with_kv_cache": "(query: Tensor, *, kv_cache: Tensor, block_tables: Tensor)"}


def write_recorded_call(folder):
    """The tensors of a call, whose record recording_file makes."""
    call = pathlib.Path(folder) / "call"
    call.mkdir()
    numbers = {"table": (2, 0, 3), "lengths": (5,)}
    for name, tensors in (("inputs", RECORDED), ("outputs", {"result": ("F16", (1, 2, 4))})):
        header, data = {}, b""
        for key, (kind, shape) in tensors.items():
            count = 1
            for axis in shape:
                count *= axis
            content = struct.pack(f"<{count}i", *numbers[key]) if kind == "I32" else struct.pack(
                f"<{count}e", *[0.5] * count)
            header[key] = tensor(kind, list(shape), len(data), len(data) + len(content))
            data += content
        (call / f"{name}.safetensors").write_bytes(safetensors(header, data))


def recording_file(random):
    function = random.choice(list(SIGNATURES))
    described = {"kwarg_causal": True, "kwarg_sm_scale": 0.5} if function.startswith("single") else {
        "kwarg_kv_cache": {"tensor_key": "pages"}, "kwarg_block_tables": {"tensor_key": "table"},
        "kwarg_seq_lens": {"tensor_key": "lengths"}, "kwarg_bmm1_scale": 0.5, "kwarg_window_left": 3}
    record = {"function_name": function, "call_sequence": 1, "timestamp": "20261124_120000_001", "process_id": 1,
              "input_metadata": described, "output_metadata": {}, "function_signature": SIGNATURES[function],
              "versions": {"flashinfer": "0.7.2"}, "graph_capture": False}
    for _ in range(random.choice((0, 1, 1, 2))):
        record = changed_tree(record, random)
    return json_text(record, random)
