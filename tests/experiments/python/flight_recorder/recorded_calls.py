"""A folder as FlashInfer's flight recorder writes it, after its documentation (docs.flashinfer.ai/logging.html) and the
source of version 0.7.2: a folder per call with metadata.jsonl, inputs.safetensors and outputs.safetensors."""
import json
import struct

import numpy as np

PAGED_PREFILL = "BatchPrefillWithPagedKVCacheWrapper"
RAGGED_PREFILL = "BatchPrefillWithRaggedKVCacheWrapper"
DECODE = "BatchDecodeWithPagedKVCacheWrapper"
SIGNATURES = {
    f"{PAGED_PREFILL}.__init__": "(self, float_workspace_buffer: torch.Tensor, kv_layout: str = 'NHD', use_cuda_graph: "
                                 "bool = False, backend: str = 'auto', jit_args: Optional[List[Any]] = None) -> None",
    f"{PAGED_PREFILL}.plan": "(self, qo_indptr: torch.Tensor, paged_kv_indptr: torch.Tensor, paged_kv_indices: "
                             "torch.Tensor, paged_kv_last_page_len: torch.Tensor, num_qo_heads: int, num_kv_heads: "
                             "int, head_dim_qk: int, page_size: int, head_dim_vo: Optional[int] = None, custom_mask: "
                             "Optional[torch.Tensor] = None, causal: bool = False, pos_encoding_mode: str = 'NONE', "
                             "sm_scale: Optional[float] = None, window_left: int = -1, logits_soft_cap: "
                             "Optional[float] = None) -> None",
    f"{PAGED_PREFILL}.run": "(self, q: torch.Tensor, paged_kv_cache: Union[torch.Tensor, Tuple[torch.Tensor, "
                            "torch.Tensor]], *args, q_scale: Union[float, torch.Tensor, None] = None, k_scale: "
                            "Optional[float] = None, v_scale: Optional[float] = None, return_lse: bool = False, "
                            "lse_base: str = 'log2') -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]",
    f"{RAGGED_PREFILL}.__init__": "(self, float_workspace_buffer: torch.Tensor, kv_layout: str = 'NHD') -> None",
    f"{RAGGED_PREFILL}.plan": "(self, qo_indptr: torch.Tensor, kv_indptr: torch.Tensor, num_qo_heads: int, "
                              "num_kv_heads: "
                              "int, head_dim_qk: int, head_dim_vo: Optional[int] = None, causal: bool = False) -> None",
    f"{RAGGED_PREFILL}.run": "(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *args, return_lse: bool = "
                             "False)",
    f"{DECODE}.__init__": "(self, float_workspace_buffer: torch.Tensor, kv_layout: str = 'NHD') -> None",
    f"{DECODE}.plan": "(self, indptr: torch.Tensor, indices: torch.Tensor, last_page_len: torch.Tensor, num_qo_heads: "
                      "int, num_kv_heads: int, head_dim: int, page_size: int, *deprecated_positional_args: Any, "
                      "**kwargs: Any) -> None",
    f"{DECODE}.run": "(self, q: torch.Tensor, paged_kv_cache: Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]], "
                     "*args, v_scale: Optional[float] = None, sinks: Optional[torch.Tensor] = None, return_lse: bool = "
                     "False) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]",
    "single_prefill_with_kv_cache": "(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale_q: "
                                    "Optional[torch.Tensor] = None, custom_mask: Optional[torch.Tensor] = None, "
                                    "causal: bool = False, kv_layout: str = 'NHD', return_lse: bool = False)",
    "single_decode_with_kv_cache": "(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, kv_layout: str = 'NHD')",
    "trtllm_batch_decode_with_kv_cache": "(query: torch.Tensor, kv_cache: Union[torch.Tensor, Tuple[torch.Tensor, "
                                         "torch.Tensor]], workspace_buffer: torch.Tensor, block_tables: torch.Tensor, "
                                         "seq_lens: torch.Tensor, max_seq_len: int, bmm1_scale: Union[float, "
                                         "torch.Tensor] "
                                         "= 1.0, bmm2_scale: Union[float, torch.Tensor] = 1.0, window_left: int = -1)",
    "trtllm_batch_context_with_kv_cache": "(query: torch.Tensor, kv_cache: Union[torch.Tensor, Tuple[torch.Tensor, "
                                          "torch.Tensor]], workspace_buffer: torch.Tensor, block_tables: torch.Tensor, "
                                          "seq_lens: torch.Tensor, max_q_len: int, max_kv_len: int, bmm1_scale: float, "
                                          "bmm2_scale: float, batch_size: int, cum_seq_lens_q: torch.Tensor, "
                                          "cum_seq_lens_kv: torch.Tensor, window_left: int = -1)",
    "rmsnorm": "(input: torch.Tensor, weight: torch.Tensor)",
}
TYPES = {"float32": "F32", "float16": "F16", "int32": "I32", "int64": "I64"}


class Coded:
    """Values as the bits of a type that NumPy lacks: BF16, F8_E4M3, F8_E5M2."""

    def __init__(self, kind, bits):
        self.kind, self.bits, self.shape, self.dtype = kind, bits, bits.shape, kind


def bfloat16(values):
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return Coded("BF16", (bits >> 16).astype(np.uint16))


def is_tensor(value):
    return isinstance(value, (np.ndarray, Coded))


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        kind, content = (tensor.kind, tensor.bits) if isinstance(tensor, Coded) else (TYPES[str(tensor.dtype)], tensor)
        content = np.ascontiguousarray(content).tobytes()
        header[name] = {"dtype": kind, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


class FlightRecorder:
    def __init__(self, folder, process=77):
        self.folder, self.process, self.number = folder, process, 0
        folder.mkdir(exist_ok=True)

    def call(self, function, *given, result=None, owner=None, finished=True, graph=False, **named):
        """A method's `given` begins with its object, which the recorder describes by a text. Returns the folder."""
        self.number += 1
        name = f"20261124_120000_001_pid{self.process}_{function}_call{self.number:04d}"  # all in one millisecond
        path = self.folder / name
        path.mkdir()
        positional = ([f"<{function.partition('.')[0]} object>"] if owner is not None else []) + list(given)
        tensors, described = {}, {}
        for key, value in [(f"arg_{i}", value) for i, value in enumerate(positional)] + \
                [(f"kwarg_{key}", value) for key, value in named.items()]:
            if is_tensor(value):
                tensors[key] = value
            elif isinstance(value, tuple):
                items = []
                for i, item in enumerate(value):
                    tensors[f"{key}__{i}"] = item
                    items.append({"type": "torch.Tensor", "tensor_key": f"{key}__{i}"})
                described[key] = {"type": "tuple", "length": len(value), "items": items, "truncated": False}
            elif isinstance(value, str) and value.startswith("<"):
                described[key] = {"type": "Wrapper", "repr": value}
            else:
                described[key] = value
        if tensors:
            write_safetensors(path / "inputs.safetensors", tensors)
        record = {"function_name": function, "module": "flashinfer", "call_sequence": self.number,
                  "timestamp": "20261124_120000_001", "process_id": self.process, "input_metadata": described,
                  "output_metadata": {}, "tensor_info": {"input_tensor_keys": list(tensors)}, "tensor_format":
                  "safetensors", "function_signature": SIGNATURES.get(function, "(x)"),
                  "versions": {"flashinfer": "0.7.2"},
                  "execution_status": "inputs_saved", "graph_capture": graph, "dump_dir": str(path)}
        if owner is not None:
            record["self_id"] = owner
        self._append(path, record)
        if finished:
            if is_tensor(result):
                write_safetensors(path / "outputs.safetensors", {"result": result})
            elif isinstance(result, tuple):
                write_safetensors(path / "outputs.safetensors", {f"result_{i}": item for i, item in enumerate(result)})
            self._append(path, record | {"execution_status": "completed"})
        return path

    def _append(self, path, record):
        for file in (path / "metadata.jsonl", self.folder / "session.jsonl"):
            with open(file, "a") as opened:
                opened.write(json.dumps(record) + "\n")


def attention(q, k, v, positions, scale, softcap=None, window=None, sinks=None):
    """q [N, Hq, D] at positions, k [T, Hkv, D], v [T, Hkv, Dv]: outputs [N, Hq, Dv] and log-sum-exps [N, Hq] in
    double."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    outputs, lse = np.empty((*q.shape[:2], v.shape[2])), np.empty(q.shape[:2])
    for n, position in enumerate(positions):
        for head in range(q.shape[1]):
            kv = head * k.shape[1] // q.shape[1]
            first = 0 if window is None else max(0, position - window + 1)
            scores = scale * (k[first:position + 1, kv] @ q[n, head])
            scores = softcap * np.tanh(scores / softcap) if softcap else scores
            total = np.exp(scores).sum() + (np.exp(sinks[head]) if sinks is not None else 0)
            outputs[n, head] = np.exp(scores) @ v[first:position + 1, kv] / total
            lse[n, head] = np.log(total)
    return outputs, lse
