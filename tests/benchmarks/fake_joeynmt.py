"""What stands for JoeyNMT in the tests: its log, and a program with its commands."""

# Lines of JoeyNMT 2.3, with other times and fewer of them.
LOG = """\
2026-11-23 02:07:23,100 - INFO - joeynmt.model - Total params: 5490688
2026-11-23 02:07:27,001 - INFO - joeynmt.training - Train config:
	device: cpu
	effective batch size (w. parallel & accumulation): 4096
2026-11-23 02:07:27,001 - INFO - joeynmt.training - EPOCH 1
2026-11-23 02:08:13,436 - INFO - joeynmt.training - Epoch   1, Step:       20, Batch Loss:     7.034564, Batch Acc: 0.068440, Tokens per Sec:      623, Lr: 0.000020
2026-11-23 02:08:13,437 - INFO - joeynmt.datasets - Sample random subset from dev data: n=20, seed=21
2026-11-23 02:08:13,501 - INFO - joeynmt.prediction - Predicting 20 example(s)... (Greedy decoding with min_output_length=1, max_output_length=100)
2026-11-23 02:08:28,533 - INFO - joeynmt.prediction - Generation took 15.0916[sec].
2026-11-23 02:08:28,539 - INFO - joeynmt.prediction - Evaluation result (greedy): loss:   6.95, ppl: 1043.76, acc:   0.09, 0.0000[sec]
2026-11-23 02:08:28,540 - INFO - joeynmt.training - Hooray! New best validation result [ppl]!
2026-11-23 02:08:29,001 - INFO - joeynmt.training - Checkpoint saved in /runs/a b/model/20.ckpt.
2026-11-23 02:08:40,000 - INFO - joeynmt.training - EPOCH 2
2026-11-23 02:09:29,001 - INFO - joeynmt.prediction - Predicting 20 example(s)... (Greedy decoding with min_output_length=1, max_output_length=100)
2026-11-23 02:09:39,000 - INFO - joeynmt.prediction - Evaluation result (greedy): loss:   6.88, ppl:  969.51, acc:   0.04, 0.0000[sec]
2026-11-23 02:09:39,001 - INFO - joeynmt.training - Checkpoint saved in /runs/a b/model/40.ckpt.
2026-11-23 02:09:50,000 - INFO - joeynmt.training - Interrupt at epoch 2, step 47.
2026-11-23 02:09:50,500 - INFO - joeynmt.training - Checkpoint saved in /runs/a b/model/47.ckpt.
2026-11-23 02:09:5"""  # noqa: E501

# What stands for the Python of JoeyNMT's environment. Its model translates as the references with
# alpha 0.6, and its perplexity is the lowest for the mean of two checkpoints.
FAKE_PYTHON = """\
    #!{python}
    import json, pathlib, shutil, sys, time
    arguments = sys.argv[1:]
    if arguments[0] != "-m":  # average_checkpoints.py
        output, *inputs = map(pathlib.Path, arguments[1:])
        assert all(path.is_file() for path in inputs)
        output.write_text("")
        facts = {{"updates": int(inputs[-1].stem), "target_tokens": 4850, "torch": "2.13.0"}}
        print(json.dumps(facts))
        sys.exit()
    verb, config = arguments[2], pathlib.Path(arguments[3])
    text = config.read_text()
    if verb == "train":
        model = config.parent / "model"
        model.mkdir()
        for name in ("20", "40"):
            (model / f"{{name}}.ckpt").write_text("")
        shutil.copy({log!r}, model / "train.log")
        time.sleep(60)
    elif 'return_prob: "ref"' in text:
        perplexity = 20 if "mean-of-2" in text else 30
        print(f"- Evaluation result (scoring) loss: 1.0, ppl: {{perplexity}}.50, acc: 0.4.")
    else:
        output = pathlib.Path(arguments[arguments.index("-o") + 1] + ".dev")
        lines = pathlib.Path({references!r}).read_text().splitlines()
        output.write_text("".join(
            f"{{line if 'beam_alpha: 0.6' in text else 'nichts'}}\\n" for line in lines
        ))
"""
