"""--dump: captures the queries of the answer while a prompt is read, and joins the dumps of the prompts."""
import contextlib
import os
import types

import h5py

from ..base.dump_writer import DumpWriter
from ..base.errors import InputError
from ..base.inspected import refuse_bad_dump
from ..capture.attention import AttentionCapture
from ..capture.record import capture_prompt, write_header


class TaskDump:
    """`source` and `created`: attributes of the dumps."""

    def __init__(self, model, config, options, source, created):
        self.model, self.config, self.options = model, config, options
        self.source, self.created = source, created
        attached = config._attn_implementation
        self.capture = AttentionCapture(model, None)
        model.set_attn_implementation(attached)

    @contextlib.contextmanager
    def _capturing(self):
        attached = self.config._attn_implementation
        self.model.set_attn_implementation("attest_capture")
        try:
            yield
        finally:
            self.model.set_attn_implementation(attached)

    def read_prompt(self, answers, prompt, tokenized, path):
        """Reads prompt and answer, and writes the dump `path`. Returns the cache, cut to the prompt's tokens but the
        last."""
        queries = min(len(tokenized.answer), self.options.dump_queries or len(tokenized.answer))
        choice = types.SimpleNamespace(decode=None, answer=queries, layers=self.options.dump_layers,
                                       head_weights=self.options.head_weights,
                                       output_gradients=self.options.output_gradients)
        cache = answers.attention.new_cache()
        with DumpWriter(path, force=True) as writer, self._capturing():
            self.capture.writer = writer
            capture_prompt(choice, self.model, self.config, self.capture, writer, prompt, tokenized, cache)
            write_header(writer, self.options, self.model, self.config, self.capture, self.source, self.created)
            writer.commit()
        answers.attention.crop(cache, len(tokenized.ids) - 1)
        return cache


def is_of(path, source, created):
    """Whether a dump is the one that a process with these attributes has made."""
    if not os.path.lexists(path):
        return False
    try:
        refuse_bad_dump(path)
        with h5py.File(path) as dump:
            return (dump.attrs.get("source"), dump.attrs.get("created")) == (source, created)
    except (InputError, OSError):
        return False
