"""Online logistic regression in Vowpal Wabbit: learn for every item, a line of its text format."""

import harness
import numpy as np
import vowpalwabbit

CONSTANT = 11650396  # the hash of the intercept

args = harness.arguments()
model = vowpalwabbit.Workspace("--loss_function logistic --bit_precision 10 --quiet")
harness.begin()
for block in harness.micro_batches(args.data, args.items, args.micro_batch):
    line = "%d | " + " ".join(f"{column}:%.6g" for column in range(1, block.shape[1]))
    for row in block.tolist():
        model.learn(line % (1 if row[0] else -1, *row[1:]))
harness.end()
weights = np.array([model.get_weight_from_name(str(column)) for column in range(1, block.shape[1])])
result = harness.score_weights(weights, model.get_weight(CONSTANT), args.test)
harness.report(args.items, result, f"Vowpal Wabbit {vowpalwabbit.__version__}, learn")
