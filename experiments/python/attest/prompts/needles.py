"""Needles, lines that say a number for a key: one (niah), one of many (mk), four of one key (mv), four keys (mq)."""
from .episode import Episode, Line, different, key, line_with, number, scattered

ASKED = 4  # values of mv, keys of mq
OTHERS = 4  # needles of mv and mq that nobody asks for


def needle(name, value, evidence):
    """The line that holds a value; one of `evidence` knows where in it the value stands."""
    before, after = f"One of the special magic numbers for {name} is: ", ".\n"
    return line_with(before, value, after) if evidence else Line(before + value + after)


def _keys_and_values(count, words, rng):
    return different(count, lambda: key(words, rng)), different(count, lambda: number(rng))


def multi_key(count, words, rng):
    """One of `count` needles is asked for; of fewer, where the words do not make as many keys."""
    count = min(count, len(words) ** 2 // 2)
    keys, values = _keys_and_values(count, words, rng)
    asked = rng.randrange(count)
    lines = [needle(k, v, i == asked) for i, (k, v) in enumerate(zip(keys, values))]
    question = (f"\nQuestion: What is the special magic number for {keys[asked]}?\n"
                f"Answer: The special magic number for {keys[asked]} is:")
    return Episode(lines, scattered(rng, count), question, values[asked], [values[asked], f" {keys[asked]} is:"])


def single(_, words, rng):
    """One needle."""
    return multi_key(1, words, rng)


def multi_value(_, words, rng):
    """Several values of one key among those of others; all of them are asked for, in the order of the text."""
    keys, values = _keys_and_values(1 + OTHERS, words, rng)
    values += different(ASKED - 1, lambda: number(rng))
    pairs = list(zip([keys[0]] * (ASKED - 1) + keys, values))
    rng.shuffle(pairs)
    mine = [value for name, value in pairs if name == keys[0]]  # in the order of the text
    question = (f"\nQuestion: What are all the special magic numbers for {keys[0]}?\n"
                f"Answer: The special magic numbers for {keys[0]} are:")
    lines = [needle(name, value, name == keys[0]) for name, value in pairs]
    return Episode(lines, scattered(rng, len(lines)), question, ", ".join(mine), [*mine, f" {keys[0]} is:"])


def multi_query(_, words, rng):
    """Several keys of many are asked for."""
    keys, values = _keys_and_values(ASKED + OTHERS, words, rng)
    asked = rng.sample(range(len(keys)), ASKED)
    lines = [needle(k, v, i in asked) for i, (k, v) in enumerate(zip(keys, values))]
    question = (f"\nQuestion: What are the special magic numbers for {', '.join(keys[i] for i in asked)}?\n"
                f"Answer: The special magic numbers are: {keys[asked[0]]} =")
    answer = ", ".join(("" if i == asked[0] else f"{keys[i]} = ") + values[i] for i in asked)
    unique = [text for i in asked for text in (values[i], f" {keys[i]} is:")]
    return Episode(lines, scattered(rng, len(lines)), question, answer, unique)
