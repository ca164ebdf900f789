"""Counting words: the most common words of a list (cwe), the most frequent of made-up words (fwe).

The list stands right before the question. Counting has no needle: the evidence is the first
occurrence of each word of the answer."""
import string

from .episode import Episode, Line, different

ASKED = 3
RATIO = 8  # how much more often cwe's common words stand in the list than the others
MOST_OFTEN = 30  # of a common word, while there are enough others to fill the list
MADE_UP_WORDS = 60  # of fwe, at most


def _episode(pool, answer, question):
    text = "\n" + " ".join(pool)  # what stands before may end within a line
    starts, at = {}, 1
    for word in pool:
        starts.setdefault(word, at)
        at += len(word) + 1
    return Episode([Line(text, [(starts[word], starts[word] + len(word)) for word in answer])], [1.0], question,
                   ", ".join(answer))


def common_words(count, words, rng):
    """A list of about `count` words."""
    often = max(6, min(MOST_OFTEN, count // 8))
    others = max(1, (count - ASKED * often) // max(1, often // RATIO))
    if others > len(words) - ASKED:  # too few words: each stands there more often
        others = len(words) - ASKED
        often = max(often, RATIO * count // (others + RATIO * ASKED))
    seldom = max(1, often // RATIO)
    chosen = rng.sample(words, ASKED + others)
    pool = chosen[:ASKED] * often + chosen[ASKED:] * seldom
    rng.shuffle(pool)
    answer = sorted(chosen[:ASKED], key=pool.index)  # in the order of the text
    return _episode(pool, answer, f"\nQuestion: What are the {ASKED} most common words in the above list?\n"
                                  "Answer: The most common words are:")


def frequent_words(count, _, rng):
    """A list of about `count` words, of which the k-th makes up a share that goes as 1 / k^2."""
    kinds = max(6, min(MADE_UP_WORDS, count // 12))
    shares = [1 / k**2 for k in range(1, kinds + 1)]
    made_up = different(kinds, lambda: "".join(rng.choices(string.ascii_lowercase, k=6)))
    counts = [max(1, int(count * share / sum(shares))) for share in shares]
    for k in range(ASKED, 0, -1):  # those asked for differ in how often they stand there
        counts[k - 1] = max(counts[k - 1], counts[k] + 1)
    pool = [word for word, times in zip(made_up, counts) for _ in range(times)]
    rng.shuffle(pool)
    question = ("\nQuestion: What are the three most frequently appeared coded words in the above text?\n"
                "Answer: The three most frequent words are:")
    return _episode(pool, made_up[:ASKED], question)
