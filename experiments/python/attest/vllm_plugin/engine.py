"""What an engine is: its attention layers and their caches; and which engines cannot be captured."""
import dataclasses
import json

from ..base.errors import InputError
from .rank import Rank

CACHE_FORMATS = {"fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2"}  # vLLM's name: ours
WIDE_CACHES = {"auto", "bfloat16", "float16", "float32"}


@dataclasses.dataclass
class Layer:
    """An attention layer of this rank, with this rank's heads. `module` is vLLM's layer."""
    number: int
    module: object
    query_heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    scale: float
    softcap: float | None
    window: int | None

    def sinks(self):
        """[Hq] or None. They are read when a dump is written: some engines load them late."""
        return getattr(self.module.impl, "sinks", None)

    def geometry(self):
        """The geometry of this rank's heads, as attributes of a dump."""
        return {"num_query_heads": self.query_heads, "num_kv_heads": self.kv_heads, "head_dim": self.head_dim,
                "value_dim": self.value_dim, "softmax_scale": self.scale, "logit_softcap": self.softcap}

    def cache_scale(self, which):
        """The scale of the cache's k or v, as it is now: engines may measure it in their first pass."""
        return float(getattr(self.module, f"_{which}_scale_float", 1.0))


@dataclasses.dataclass
class Engine:
    version: str
    model: str
    num_layers: int  # of the model
    layers: dict  # number -> Layer, those that a dump can describe
    left_out: dict  # number -> why a dump cannot describe it
    rank: Rank
    backend: str
    rope: str | None
    prefix_caching: bool

    def kv_cache(self, numbers):
        """The cache of these layers as options of the selector kv_cache; "" for 16 bit. Scales stand at the layers."""
        kinds = {number: self.layers[number].module.kv_cache_dtype for number in numbers}
        narrow = {kind for kind in kinds.values() if kind not in WIDE_CACHES}
        if not narrow:
            return ""
        (kind,) = narrow
        options = [f"k={CACHE_FORMATS[kind]}", f"v={CACHE_FORMATS[kind]}"]
        coded = [number for number in numbers if kinds[number] == kind]
        skipped = sorted(set(kinds) - set(coded))
        if skipped:
            options.append("skip_layers=" + "+".join(map(str, skipped)))
        return ",".join(options)

    def source(self):
        """How the dump was captured, for its attribute."""
        kinds = sorted({layer.module.kv_cache_dtype for layer in self.layers.values()})
        ranks = "" if self.rank.is_alone() else (f", {self.rank.tensor_size} tensor-parallel and "
                                                 f"{self.rank.pipeline_size} pipeline-parallel ranks")
        return (f"vllm {self.version}, attention backend {self.backend}, KV cache {', '.join(kinds)}{ranks}; "
                "captured by attest-vllm at the attention layer")


def refuse_configuration(config):
    """Refuses what would make an attention layer see other tokens than a dump holds, or not run at all."""
    parallel, compilation = config.parallel_config, config.compilation_config
    if config.speculative_config is not None:
        raise InputError("speculative decoding: drafted tokens and layers of the draft model reach the attention "
                         "layers, too; run the engine without --speculative-config")
    for name in ("decode_context_parallel_size", "prefill_context_parallel_size"):
        if getattr(parallel, name, 1) > 1:
            raise InputError(f"{name} {getattr(parallel, name)}: a rank sees a part of the tokens; expected 1")
    if getattr(parallel, "enable_dbo", False):
        raise InputError("dual batch overlap: a step's requests are split; run the engine without --enable-dbo")
    mode = getattr(compilation, "cudagraph_mode", None)
    if mode is not None and mode.has_full_cudagraphs():
        raise InputError(f"cudagraph mode {mode.name}: a full CUDA graph runs no Python code at an attention layer; "
                         "run the engine with -cc.cudagraph_mode=PIECEWISE or --enforce-eager")
    if getattr(compilation.pass_config, "fuse_attn_quant", False):
        raise InputError("fuse_attn_quant: attention gives a quantised output; run the engine without this pass")


def why_not(layer):
    """Why a dump cannot describe an attention layer; None if it can."""
    impl, kind = getattr(layer, "impl", None), type(layer).__name__
    if kind != "Attention":
        return f"is {kind}, whose attention is not the softmax(scale q k) v of a dump"
    if layer.attn_type != "decoder":
        return f"is attention of the kind {layer.attn_type}, not a decoder's"
    if getattr(impl, "alibi_slopes", None) is not None:
        return "has position biases (ALiBi)"
    if getattr(layer, "kv_sharing_target_layer_name", None) is not None:
        return f"reads the cache of {layer.kv_sharing_target_layer_name} and gets no keys of its own"
    if layer.kv_cache_dtype not in WIDE_CACHES | set(CACHE_FORMATS):
        return f"has a cache of the type {layer.kv_cache_dtype}, for which attest has no format"
    return None


def describe_layer(number, layer):
    """What a layer of vLLM says of its own geometry."""
    softcap = getattr(layer.impl, "logits_soft_cap", None)
    return Layer(number, layer, layer.num_heads, layer.num_kv_heads, layer.head_size,
                 getattr(layer, "head_size_v", layer.head_size), float(layer.impl.scale),
                 float(softcap) if softcap else None, layer.sliding_window)


def sort_layers(modules, numbers):
    """Sorts {name: vLLM's layer} by {name: number}. Returns ({number: Layer}, {number: why it is left out})."""
    layers, left_out = {}, {}
    for name, module in modules.items():
        number = numbers[name]
        if number in layers or number in left_out:
            raise InputError(f"layer {number}: has several attention layers, {name} is one of them, which a dump "
                             "cannot tell apart")
        reason = why_not(module)
        if reason is None:
            layers[number] = describe_layer(number, module)
        else:
            left_out[number] = reason
    if not layers:
        raise InputError("the model has no attention layer that a dump can describe" + "".join(
            f"; layer {number} {reason}" for number, reason in list(left_out.items())[:1]))
    first = layers[min(layers)].geometry()
    for number in list(layers):
        for field, value in layers[number].geometry().items():
            if value != first[field]:
                left_out[number] = f"has {field} {value}, the first layer {first[field]}"
                layers.pop(number, None)
    kinds = {layer.module.kv_cache_dtype for layer in layers.values()} - WIDE_CACHES
    if len(kinds) > 1:
        raise InputError(f"KV caches of the types {', '.join(sorted(kinds))}: a dump tells of one")
    return dict(sorted(layers.items())), left_out


def describe_engine(config):
    """The Engine of a worker's vllm_config, once its model is loaded."""
    import vllm
    from vllm.distributed.parallel_state import get_pp_group, get_tp_group
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.model_executor.models.utils import extract_layer_index

    refuse_configuration(config)
    modules = {name: module for name, module in config.compilation_config.static_forward_context.items()
               if isinstance(module, AttentionLayerBase) and "Attention" in type(module).__name__}
    layers, left_out = sort_layers(modules, {name: extract_layer_index(name) for name in modules})
    tensor, pipeline, model = get_tp_group(), get_pp_group(), config.model_config
    rank = Rank(tensor.rank_in_group, tensor.world_size, pipeline.rank_in_group, pipeline.world_size,
                max(1, tensor.world_size // model.get_total_num_kv_heads()))
    rope = getattr(model.hf_text_config, "rope_parameters", None)
    return Engine(vllm.__version__, str(model.model).rstrip("/").rpartition("/")[2],
                  model.hf_text_config.num_hidden_layers, layers, left_out, rank,
                  layers[min(layers)].module.attn_backend.get_name(), json.dumps(rope) if rope else None,
                  bool(config.cache_config.enable_prefix_caching))
