"""Answers of a model behind a prompt that lies in its cache: decoded greedily, or the known answer fed to it."""
import torch

from ..base.errors import AttestError, InputError
from ..base.stored_text import storable
from ..capture.run_model import accepted_options, places, running
from ..outcomes.prompt import NOT_SCORED, Outcome, PromptOutcomes
from ..prompts.scoring import score

MORE_TOKENS = 8  # than the known answer has, before an answer is cut


def end_tokens(model, tokenizer):
    """The tokens that end a text."""
    for source in (getattr(model, "generation_config", None), model.config.get_text_config(), tokenizer):
        found = getattr(source, "eos_token_id", None)
        if found is not None:
            return set(found) if isinstance(found, list) else {found}
    return set()


def has_more_lines(reply, answer):
    """Whether a reply, which may go on, has ended more lines than the answer has."""
    return reply.lstrip().count("\n") > answer.strip().count("\n")


class ModelAnswers:
    """`attention`: what attach of selectors/attention.py returned. Every prompt is cut back to all of its tokens but
    the last one, which each run feeds anew."""

    def __init__(self, model, attention, tokenizer, layers):
        self.model, self.attention, self.tokenizer, self.layers = model, attention, tokenizer, layers
        self.ends = end_tokens(model, tokenizer)

    def prefill(self, ids):
        """A cache of all tokens but the last, read with the model's own attention."""
        cache = self.attention.new_cache()
        self.attention.selecting = False
        if len(ids) > 1:
            self._predict(cache, 0, ids[:-1], 1)
        return cache

    def choose(self, run):
        """From the next pass on, attention is that of `run`."""
        self.attention.selecting = not run.is_dense
        if not run.is_dense:
            self.attention.use(run.text, run.operator_setting(), self.layers)
        self.attention.reset()

    def greedy(self, cache, ids, answer, most):
        """The tokens of the reply to the prompt `ids`, without the one that ends it."""
        self.attention.crop(cache, len(ids) - 1)
        reply, following = [], ids[-1]
        while len(reply) < most:
            following = self._predict(cache, len(ids) - 1 + len(reply), [following], 1)[0]
            if following in self.ends:
                break
            reply.append(following)
            if has_more_lines(self.text(reply), answer):
                break
        return reply

    def forced(self, cache, ids, answer):
        """The predictions in place of the tokens `answer`, each after the right ones before it."""
        self.attention.crop(cache, len(ids) - 1)
        return self._predict(cache, len(ids) - 1, ids[-1:] + answer[:-1], len(answer))

    def text(self, ids):
        """As the tokens have it: no spaces are cleaned up."""
        return self.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)

    def _predict(self, cache, start, ids, count):
        """Feeds tokens behind the `start` that are in the cache. Returns the predictions after the last `count`."""
        model = self.model
        with running(model, start + len(ids), "through a selector"), torch.inference_mode():
            step = model(input_ids=torch.tensor([ids], device=model.device), past_key_values=cache, use_cache=True,
                         **places(model, start, len(ids)), **accepted_options(model, logits_to_keep=count))
        return step.logits[0, -count:].argmax(-1).tolist()


def answer_text(answers, prompt, tokenized):
    """The text that replies are scored by."""
    text = prompt.answer if isinstance(prompt.answer, str) else answers.text(tokenized.answer)
    if not tokenized.answer or not text.strip():
        raise InputError(f"{prompt.where}: no \"answer\", or an empty one, and a reply is scored by it")
    return text


def measure(answers, runs, prompt, tokenized, cache, options):
    """Runs every run on a prompt whose tokens but the last are in the cache."""
    known, outcomes = answer_text(answers, prompt, tokenized), []
    for run in runs:
        try:
            answers.choose(run)
            if options.forced:
                reply = answers.forced(cache, tokenized.ids, tokenized.answer)
                scores = (NOT_SCORED, NOT_SCORED, int(reply == tokenized.answer))
                text = answers.text(reply)
            else:
                max_tokens = options.max_new_tokens or len(tokenized.answer) + MORE_TOKENS
                reply = answers.greedy(cache, tokenized.ids, known, max_tokens)
                text = answers.text(reply)
                found = score(text, known)
                scores = (int(found.exact), int(found.contains), int(found.prefix))
        except AttestError as error:
            raise type(error)(f"{prompt.name}, {run.name()}: {error}") from error
        kept = 1.0 if run.is_dense else answers.attention.kept_ratio()
        outcomes.append(Outcome(*scores, storable(text), kept, len(reply)))
    return PromptOutcomes(prompt.name, prompt.task, storable(known), len(tokenized.ids), outcomes)
