"""The model class `attest` of the lm-evaluation-harness: a Hugging Face decoder that answers through a selector.

Contexts and prompts are read with the model's own attention, all but their last token. From it on every row goes
through the selector: those that score a continuation in one pass, those that generate one by one.
"""
import torch
from lm_eval.models.huggingface import HFLM
from tqdm import tqdm
from transformers import AutoConfig

from ..base.errors import InputError, UsageError, first_line
from ..capture.run_model import accepted_options, places
from ..selectors.attention import attach
from ..selectors.library import check_device, default_device, load_library
from .arguments import layers_of_argument, selector_text, setting_of
from .byte_tokenizer import byte_tokenizer


class SelectorLM(HFLM):
    def __init__(self, pretrained, selector="exact", delta=None, budget=None, p=None, factor=None, settings_file=None,
                 layers=None, torch_ops=None, tokenizer=None, device=None, batch_size=1, max_batch_size=None,
                 **options):
        if str(batch_size) != "1":
            raise UsageError(f"--batch_size {batch_size}: expected 1, as a batch with padding cannot go through a "
                             "selector")
        load_library(torch_ops)
        selector = selector_text(selector, settings_file)
        setting = setting_of(selector, {"delta": delta, "budget": budget, "p": p, "factor": factor})
        device = device or default_device()
        check_device(device)
        try:
            if tokenizer == "bytes":
                config = AutoConfig.from_pretrained(pretrained, revision=str(options.get("revision", "main")))
                tokenizer = byte_tokenizer(config.get_text_config())
            super().__init__(pretrained, tokenizer=tokenizer, device=device, batch_size=1, **options)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{pretrained}: cannot be loaded by the harness ({first_line(error)})") from error
        if self.backend != "causal" or self.world_size > 1:
            raise UsageError(f"{pretrained}: expected a decoder-only model in one process")
        num_layers = self.model.config.get_text_config().num_hidden_layers
        self.attention = attach(self.model, selector, setting, layers=layers_of_argument(layers, num_layers),
                                library=torch_ops)
        self.read = None  # (tokens, cache) of the context read last

    def _pass(self, tokens, cache, start, selecting, rows):
        """Logits of the last `rows` of tokens [N], which stand behind the `start` that are in the cache."""
        self.attention.selecting = selecting
        with torch.inference_mode(), torch.autocast(
                self.device.type, self.mixed_precision_dtype, enabled=self.mixed_precision_dtype is not None):
            return self.model(input_ids=torch.tensor([tokens], device=self.device), past_key_values=cache,
                              use_cache=True, **places(self.model, start, len(tokens)),
                              **accepted_options(self.model, logits_to_keep=rows)).logits[0, -rows:]

    def _context(self, tokens):
        """A cache of the tokens, read with the model's own attention. Choices of one context share it."""
        if self.read is not None and self.read[0] == tokens and self.attention.can_crop(self.read[1]):
            self.attention.crop(self.read[1], len(tokens))
            return self.read[1]
        self.read, cache = None, self.attention.new_cache()  # frees the one before
        if tokens:
            self._pass(tokens, cache, 0, False, 1)
        self.read = tokens, cache
        return cache

    def _loglikelihood_tokens(self, requests, disable_tqdm=False, override_bs=None):
        answers = []
        for text, context, continuation in tqdm(requests, disable=disable_tqdm or len(requests) == 1,
                                                desc="Running loglikelihood requests"):
            if len(continuation) > self.max_length:
                raise InputError(f"a continuation of {len(continuation)} tokens: expected at most {self.max_length}, "
                                 "the longest input of the model")
            tokens = (context + continuation)[-(self.max_length + 1):]  # too long ones are cut at the start, as in HFLM
            first = len(tokens) - len(continuation) - 1
            logits = self._pass(tokens[first:-1], self._context(tokens[:first]), first, True, len(continuation))
            scores = torch.log_softmax(logits, -1, dtype=self.softmax_dtype or torch.float32)
            expected = torch.tensor(continuation, device=scores.device)
            answers.append((float(scores.gather(1, expected[:, None]).sum()),
                            bool((scores.argmax(-1) == expected).all())))
            if text is not None:
                self.cache_hook.add_partial("loglikelihood", text, answers[-1])
        return answers

    def _model_generate(self, context, max_length, stop, **options):
        options.pop("attention_mask", None)  # of ones, as the batch is one prompt
        cache = self._context(context[0, :-1].tolist())
        self.read = None  # what is generated goes into the same cache
        self.attention.selecting = True
        with torch.inference_mode():
            return super()._model_generate(context, max_length, stop, past_key_values=cache, **options)

    def get_model_info(self):
        """For the harness's results: which selector answered, and what it kept on average."""
        layers = self.attention.layers
        return {**super().get_model_info(), "attest_selector": self.attention.selector,
                "attest_setting": self.attention.setting, "attest_layers": layers and sorted(layers),
                "attest_kept_ratio": self.attention.kept_ratio()}
