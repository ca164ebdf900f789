"""A model in llama.cpp: loads a GGUF file, runs tokens, and gives what its attention computes to a GraphWatch."""
import ctypes
import os
import re

import numpy as np

from ..base.errors import InputError, OutputError, UsageError
from ..base.files import InputFile
from .ggml import type_number
from .graph import GraphWatch

CELLS = 256  # llama.cpp rounds its cache up to a multiple
# Its functions give NULL for all that fails: its lines alone tell a limit of the machine.
NO_MEMORY = re.compile("(?i)(failed|unable) to allocate|cannot allocate memory|(out of|insufficient) memory|bad_alloc")


def refuse_missing_model(path):
    """Refuses a file that is not there, before llama.cpp is loaded."""
    with InputFile(path) as file:
        if file.size < 4 or file.read(0, 4) != b"GGUF":
            raise InputError(f"{path}: expected a GGUF file, found something else")


def version():
    """The version of the bindings, which names the llama.cpp in them."""
    import llama_cpp

    return f"llama-cpp-python {llama_cpp.__version__}"


class LlamaModel:
    """The process has it until its end: a command runs one model."""

    def __init__(self, options, deliver):
        import llama_cpp

        self.api, self.options, self.watch = llama_cpp, options, GraphWatch(deliver)
        self.lines = []  # of the library, for what fails
        self.log = llama_cpp.llama_log_callback(lambda level, text, _: self.lines.append(text.decode(errors="replace")))
        llama_cpp.llama_log_set(self.log, ctypes.c_void_p())
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = options.gpu_layers
        self.model = llama_cpp.llama_model_load_from_file(os.fsencode(options.model), parameters)
        if not self.model:
            raise self._failure(InputError, "load it")
        self.vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        self.num_layers = llama_cpp.llama_model_n_layer(self.model)
        self.callback = llama_cpp.llama_cpp.ggml_backend_sched_eval_callback(self.watch)
        self.context, self.capacity = None, 0

    def name(self):
        """As its file says, else that of the file."""
        return self.metadata("general.name") or os.path.basename(self.options.model)

    def metadata(self, key):
        """The text of a key of the file's metadata; None without it."""
        text = ctypes.create_string_buffer(4096)
        size = self.api.llama_model_meta_val_str(self.model, key.encode(), text, len(text))
        return text.value.decode(errors="replace") if size >= 0 else None

    def begin(self, num_tokens):
        """An empty cache for as many tokens."""
        if num_tokens > self.capacity:
            if self.context:
                self.api.llama_free(self.context)
            self.capacity = -(-num_tokens // CELLS) * CELLS
            self.context = self._make_context()
        self.api.llama_memory_clear(self.api.llama_get_memory(self.context), True)

    def run(self, tokens, start, layers, num_predictions):
        """Feeds tokens that stand from position `start` on. Returns what the model predicts after each of the last
        `num_predictions`."""
        size, predicted = self.options.batch_size, []
        for begin in range(0, len(tokens), size):
            part = tokens[begin:begin + size]
            first_wanted = max(0, len(tokens) - num_predictions - begin)
            predicted += self._decode(part, start + begin, layers, first_wanted)
        return predicted

    def _decode(self, tokens, start, layers, first_wanted):
        batch = self.api.llama_batch_init(len(tokens), 0, 1)
        try:
            batch.n_tokens = len(tokens)
            for i, token in enumerate(tokens):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, start + i, 1, 0
                batch.logits[i] = i >= first_wanted
            self.watch.begin(layers)
            self.lines.clear()
            code = self.api.llama_decode(self.context, batch)
        finally:
            self.api.llama_batch_free(batch)
        if self.watch.error is not None:
            raise self.watch.error
        if code:
            raise self._failure(InputError, f"run {len(tokens)} tokens from position {start} on", f"code {code}: ")
        size = self.api.llama_vocab_n_tokens(self.vocabulary)
        return [int(np.ctypeslib.as_array(self.api.llama_get_logits_ith(self.context, i), (size,)).argmax())
                for i in range(first_wanted, len(tokens))]

    def _make_context(self):
        options = self.options
        parameters = self.api.llama_context_default_params()
        parameters.n_ctx, parameters.n_batch = self.capacity, options.batch_size
        parameters.n_ubatch = options.batch_size
        parameters.n_seq_max, parameters.swa_full, parameters.kv_unified = 1, True, True
        parameters.n_threads = parameters.n_threads_batch = options.threads or len(os.sched_getaffinity(0))
        parameters.type_k, parameters.type_v = type_number(options.cache_type_k), type_number(options.cache_type_v)
        parameters.flash_attn_type = {"on": 1, "off": 0, "auto": -1}[options.flash_attn]
        parameters.offload_kqv = not options.no_kv_offload
        parameters.cb_eval = self.callback
        self.lines.clear()
        context = self.api.llama_init_from_model(self.model, parameters)
        if not context:
            raise self._failure(UsageError, f"make a cache of K {options.cache_type_k} and V {options.cache_type_v} "
                                            f"for {self.capacity} tokens")
        return context

    def _failure(self, kind, what, code=""):
        """The error of what llama.cpp cannot do, with the first line that it wrote about it: of `kind`, unless it found
        no memory."""
        lines = [line.strip() for line in "".join(self.lines).splitlines() if line.strip()]
        said = [line for line in lines if re.search("error|fail|unable|invalid|require|support", line, re.I)]
        complaint = said[0] if said else lines[-1] if lines else "it does not say why"
        kind = OutputError if any(map(NO_MEMORY.search, lines)) else kind
        return kind(f"{self.options.model}: llama.cpp cannot {what} ({code}{complaint})")
