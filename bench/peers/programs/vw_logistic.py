"""Online logistic regression in Vowpal Wabbit: several passes over its own binary cache, a step per item."""

import harness
import numpy as np
import vowpalwabbit

ROWS = 200_000
CONSTANT = 11650396  # the hash of the intercept

args = harness.arguments()
text, cache = args.scratch / "train.vw", args.scratch / "train.cache"
rows = next(harness.micro_batches(args.data, ROWS, ROWS))
line = "%d | " + " ".join(f"{column}:%.6g" for column in range(1, rows.shape[1])) + "\n"
with open(text, "w") as file:
    file.writelines(line % (1 if row[0] else -1, *row[1:]) for row in rows.tolist())
options = f"--data {text} --cache_file {cache} --loss_function logistic --bit_precision 10 --quiet"
vowpalwabbit.Workspace(options).finish()  # writes the cache

passes = max(1, args.items // ROWS)
harness.begin()
model = vowpalwabbit.Workspace(f"{options} --passes {passes} --holdout_off")
harness.end()
weights = np.array([model.get_weight_from_name(str(column)) for column in range(1, rows.shape[1])])
result = harness.score_weights(weights, model.get_weight(CONSTANT), args.test)
harness.report(ROWS * passes, result, f"Vowpal Wabbit {vowpalwabbit.__version__}, from its cache")
