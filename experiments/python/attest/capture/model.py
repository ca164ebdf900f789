"""Loads the model and the tokenizer of a capture, and describes the model's rotary parameters."""
import importlib.util
import json
import os
import pathlib
import re
import sys

from ..base.errors import InputError, OutputError, UsageError, first_line
from ..base.progress import say
from .prompt_tokens import ByteTokenizer

# Logs and dumps beside a checkpoint may change.
CHECKPOINT_FILES = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".json", ".model", ".tiktoken", ".txt", ".jinja",
                    ".py")


def refuse_missing_folder(name, option=""):
    """Refuses a path that leads to no folder, before anything slow is imported and the hub is asked. What may be a name
    on the hub (x or x/y) passes."""
    if os.path.exists(name) and not os.path.isdir(name):
        raise InputError(f"{option}{name}: expected the folder of a checkpoint or a name on the hub, found a file")
    if not os.path.exists(name) and not re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", name):
        raise InputError(f"{option}{name}: no such folder")


def files_of_model(name):
    """What a command that reads the model may not replace: the file, or the files of the checkpoint's folder."""
    try:
        return [name, *(os.path.join(name, entry) for entry in os.listdir(name))]
    except OSError:  # a file, or no folder that can be read
        return [name]


def checkpoint_identity(options, config=None):
    """For --resume: what tells the checkpoint and the tokenizer from others of the same names. It is the sizes and
    times of files, or the commit on the hub, which `config` knows once it is loaded."""
    files = {}
    for name in filter(None, (options.model, options.tokenizer)):
        for path in files_of_model(name):
            if path.endswith(CHECKPOINT_FILES) and os.path.isfile(path):
                status = os.stat(path)
                files[path] = {"bytes": status.st_size, "modified_ns": status.st_mtime_ns}
    commit = None if os.path.exists(options.model) else getattr(config or load_config(options), "_commit_hash", None)
    return {"files": files, "commit": commit}


def refuse_missing_checkpoint(options):
    """Refuses a folder that holds no checkpoint, before torch is imported, which takes seconds. Names on the hub are
    looked up later."""
    refuse_missing_folder(options.model)
    if os.path.isdir(options.model) and not any(os.path.exists(os.path.join(options.model, name))
                                                for name in ("config.json", "adapter_config.json")):
        raise InputError(f"{options.model}: expected the folder of a checkpoint, found no config.json in it")
    if options.tokenizer and options.tokenizer != "bytes":
        refuse_missing_folder(options.tokenizer, "--tokenizer ")


def _silence():
    import huggingface_hub
    import transformers

    transformers.utils.logging.set_verbosity_error()
    huggingface_hub.utils.logging.set_verbosity_error()  # where no hub answers, it tries for half a minute


def load_config(options):
    """The config of the whole model."""
    import transformers

    _silence()
    try:
        return transformers.AutoConfig.from_pretrained(options.model, revision=options.revision,
                                                       trust_remote_code=options.trust_remote_code)
    except Exception as error:
        raise InputError(f"{options.model}: its config cannot be read ({first_line(error)})") from error


def load_weights(name, dtype, device, **options):
    """The model of transformers on the device; None: where its options place it."""
    import torch
    import transformers

    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(name, dtype=dtype, **options)
        return model.to(device) if device else model
    except torch.OutOfMemoryError as error:
        raise OutputError(f"{name}: does not fit into the memory of the GPU ({first_line(error)})") from error
    except Exception as error:  # whatever is wrong with the checkpoint, in the library's words
        raise InputError(f"{name}: cannot be loaded as a decoder ({first_line(error)})") from error


def load_model(options):
    """Loads the model, in evaluation, on the device of the options. Returns (model, its text config)."""
    import torch
    import transformers

    if int(transformers.__version__.split(".")[0]) < 5:
        raise OutputError(f"{sys.executable}: expected transformers 5 or later, found {transformers.__version__}")
    _silence()
    if not os.path.isdir(options.model):
        say(f"{options.model}: is no folder here; looking for it on the hub", options.quiet)
    if not sys.stderr.isatty():
        transformers.utils.logging.disable_progress_bar()
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    elif device.startswith("cuda") and not torch.cuda.is_available():
        raise UsageError(f"--device {device}: there is no CUDA GPU here")
    placing = {}
    if device == "spread":
        if not importlib.util.find_spec("accelerate"):
            raise UsageError("--device spread: transformers places layers with the package accelerate, which is not "
                             "there: install it beside torch")
        placing = {"device_map": "auto"}
    model = load_weights(options.model, getattr(torch, options.dtype) if options.dtype else "auto",
                         None if placing else device, **placing, revision=options.revision,
                         trust_remote_code=options.trust_remote_code).eval()
    config = model.config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{options.model}: is no decoder-only model")
    return model, config


def model_name(options):
    """What a dump calls the model."""
    if options.model_name:
        return options.model_name
    folder = pathlib.Path(options.model)
    return folder.resolve().name if folder.is_dir() else options.model


def vocabulary_of(model):
    """How many tokens it has."""
    return model.get_input_embeddings().weight.shape[0]


def refuse_unknown_tokens(vocabulary, prompt, ids):
    """Refuses tokens that the model has not, before it indexes its embedding with them, which a GPU reports as an
    assertion."""
    if max(ids) >= vocabulary:
        raise InputError(f"{prompt.where}: token {max(ids)} is not in the model's vocabulary of {vocabulary}")


def length_warning(config, num_tokens):
    """The end of a line about a prompt; empty if the model has as many positions, or does not say."""
    positions = getattr(config, "max_position_embeddings", None)
    return f", longer than the model's {positions} positions" if positions and num_tokens > positions else ""


def pretrained_tokenizer(name, revision=None, trust_remote_code=False):
    """Whatever transformers raises becomes an InputError."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")  # a tokenizer needs no torch, which may be missing
    import transformers

    try:
        return transformers.AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except Exception as error:
        raise InputError(f"{name}: no tokenizer can be loaded ({first_line(error)})") from error


def load_tokenizer(options, config):
    """The model's own, that of --tokenizer, or the bytes of UTF-8."""
    if options.tokenizer == "bytes":
        first = getattr(options, "first_token", None)
        return ByteTokenizer(config.bos_token_id if first is None else first)
    try:
        return pretrained_tokenizer(options.tokenizer or options.model, None if options.tokenizer else options.revision,
                                    options.trust_remote_code)
    except InputError as error:
        raise InputError(f"{error}; --tokenizer names another, and prompts of token ids need none") from error


def rope_parameters(model, config):
    """JSON of the rotary parameters. It includes the frequencies in use unless they depend on the length of the prompt.
    Models that rotate differently by layer type get one object per type, and the type of each layer. Latent attention
    gets first_channel: the channels before it, those of the latent, are not rotated."""
    parameters = getattr(config, "rope_parameters", None)
    if not parameters:
        return None
    rotary = next((m for m in model.get_decoder().modules() if type(m).__name__.endswith("RotaryEmbedding")), None)

    def with_frequencies(kind, prefix):
        frequencies = getattr(rotary, f"{prefix}inv_freq", None)
        if frequencies is None or kind.get("rope_type") in ("dynamic", "longrope"):
            return dict(kind)
        return {**kind, "inv_freq": frequencies.float().tolist(),
                "attention_scaling": float(getattr(rotary, f"{prefix}attention_scaling", 1.0))}

    if all(isinstance(kind, dict) for kind in parameters.values()):
        described = {name: with_frequencies(kind, f"{name}_") for name, kind in parameters.items()}
        described["layer_types"] = list(config.layer_types)
    else:
        described = with_frequencies(parameters, "")
    if getattr(config, "kv_lora_rank", None):
        described["first_channel"] = config.kv_lora_rank
    return json.dumps(described)
