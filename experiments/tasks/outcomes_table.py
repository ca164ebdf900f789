"""The outcomes as a table: a row per run, a column per task and length with the share of prompts answered right."""
import math

from prompt_outcomes import NOT_SCORED

SCORES = {"greedy": "contains", "forced": "prefix"}  # what counts as right, by how prompts were answered
MEANING = {"contains": "the answer stands in the reply", "prefix": "every token of the answer is predicted"}


def _column(prompt, lengths):
    """Task, and the length rounded to a power of two where a task has several."""
    length = 2 ** round(math.log2(prompt.num_tokens))
    if len(lengths[prompt.task]) < 2:
        return prompt.task
    return f"{prompt.task} {length // 1024}K" if length >= 1024 else f"{prompt.task} {length}"


def _mean(values):
    values = list(values)
    return sum(values) / len(values)


def summarize(runs, prompts, answered):
    """JSON of the table. `answered`: greedy or forced."""
    score, lengths, columns = SCORES[answered], {}, {}
    for prompt in prompts:
        lengths.setdefault(prompt.task, set()).add(round(math.log2(prompt.num_tokens)))
    for prompt in prompts:
        columns.setdefault(_column(prompt, lengths), []).append(prompt)
    rows = []
    for r, run in enumerate(runs):
        right = {name: _mean(getattr(p.outcomes[r], score) == 1 for p in members) for name, members in columns.items()}
        rows.append({"label": run.label, "setting": run.typed, "right": right,
                     "kept_ratio": _mean(p.outcomes[r].kept_ratio for p in prompts)})
    return {"right": f"{score}: {MEANING[score]}", "answered": answered,
            "prompts": {name: len(members) for name, members in columns.items()}, "runs": rows}


def right(outcome):
    """Whether one outcome counts as right."""
    return (outcome.prefix if outcome.contains == NOT_SCORED else outcome.contains) == 1


def table_text(summary):
    names = list(summary["prompts"])
    lines = [["selector", "setting", *names, "kept"],
             ["prompts", "", *(str(summary["prompts"][name]) for name in names), ""]]
    for row in summary["runs"]:
        lines.append([row["label"], row["setting"], *(f"{row['right'][name]:.2f}" for name in names),
                      f"{100 * row['kept_ratio']:.1f} %"])
    widths = [max(map(len, column)) for column in zip(*lines)]
    text = ["  ".join(cell.ljust(width) if i < 2 else cell.rjust(width)
                      for i, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]
    return "\n".join([*text, f"Right is {summary['right']}."]) + "\n"
