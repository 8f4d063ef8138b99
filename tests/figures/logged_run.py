"""A run without a model that has logs, whose numbers are easy to count with."""

from tests.evaluation.cost.recorded_runs import write_run

METRICS = """\
step,loss,learning_rate,target_tokens_per_second,step_seconds
1,8.0,0.001,100.0,2.0
2,6.0,0.002,100.0,2.0
12,4.0,0.001,200.0,1.0
22,2.0,,,1.0
"""
VALIDATION = """\
step,seconds,val_bleu,val_perplexity
2,60.0,,90.0
12,180.0,20.0,30.0
"""


def write_logged_run(path, metrics=METRICS, validation=VALIDATION):
    """Write a run with logs into a new directory; returns its path as a string."""
    run = write_run(path, metrics=False)
    for name, content in (("metrics.csv", metrics), ("validation.csv", validation)):
        if content is not None:
            (path / name).write_text(content)
    return run
