"""Lays an episode's lines out in a haystack, so that the prompt has a wanted number of tokens."""
from dataclasses import dataclass

NEAR = 200  # characters: a hidden line stands at the start of a line of the haystack, if one begins so near before
FILLING = 64  # characters that may be put in front instead of behind: another start has another number of tokens
PIECES = 16  # that begin a little earlier, and are tried last
ROUNDS = 40  # of the search for a length; it halves its range at least every second round


@dataclass
class Text:
    text: str  # up to the question's last character
    evidence: list  # of [begin, end), in characters
    question: list  # [begin, end)


def lay_out(episode, haystack):
    """The lines in all of this haystack, each at its place, and the question behind it."""
    parts, evidence, at, taken = [], [], 0, 0

    def add(text):
        nonlocal at
        parts.append(text)
        at += len(text)

    for line, place in zip(episode.lines, episode.places):
        position, glue = _start_of_line(haystack, int(place * len(haystack)))
        if position > taken or not parts:
            add(haystack[taken:position] + glue)
            taken = max(taken, position)
        evidence += [[at + begin, at + end] for begin, end in line.evidence]
        add(line.text)
    add(haystack[taken:])
    question = len(episode.question) - len(episode.question.lstrip())
    begin = at + question
    add(episode.question)
    return Text("".join(parts), evidence, [begin, at])


def _start_of_line(haystack, place):
    """Where to begin a line near `place`: (position, what to put there)."""
    if place == len(haystack):
        return place, ""
    start = haystack.rfind("\n", 0, place) + 1
    if place - start <= NEAR:
        return start, ""
    return max(haystack.rfind(" ", 0, place) + 1, start), "\n"


def filled_to(wanted, episode, haystack, begin, count):
    """A Text of `wanted` tokens, or a few less where the tokenizer has none of that length nearby; None if the lines
    and the question alone are more. The haystack is taken from `begin` on; count(text) gives a text's tokens."""
    def made(length, filling=0, back=0):
        laid = lay_out(episode, haystack.piece(begin - back, length))
        front = haystack.piece(begin - filling, filling)
        spans = [[b + filling, e + filling] for b, e in laid.evidence]
        return Text(front + laid.text, spans, [bound + filling for bound in laid.question])

    # low: not too long, with low_tokens; high: too long, or unknown
    low, low_tokens, high = 0, count(made(0).text), None
    if low_tokens > wanted:
        return None
    sample = haystack.piece(begin, 4096)
    characters = len(sample) / max(1, count(sample))  # of a token
    for turn in range(ROUNDS):
        if low_tokens == wanted or high is not None and high - low <= 1:
            break
        guess = low + max(1, int((wanted - low_tokens) * characters))
        if high is not None:
            guess = (low + high) // 2 if turn % 2 else min(guess, high - 1)
        tokens = count(made(guess).text)
        if tokens <= wanted:
            low, low_tokens = guess, tokens
        else:
            high = guess
    best, best_tokens = made(low), low_tokens
    for filling in range(1, FILLING + 1):
        if best_tokens == wanted:
            break
        text = made(max(0, low - filling), filling)
        tokens = count(text.text)
        if best_tokens < tokens <= wanted:
            best, best_tokens = text, tokens
    for back in range(1, PIECES + 1):  # each is made longer or shorter by what it lacks or has too much
        length = low
        for _ in range(4):
            if best_tokens == wanted:
                return best
            text = made(length, back=back)
            tokens = count(text.text)
            if best_tokens < tokens <= wanted:
                best, best_tokens = text, tokens
            length = max(0, length + round((wanted - tokens) * characters))
    return best
