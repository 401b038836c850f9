"""Online learning: linear models, k-means, networks, their training and prediction, and their kernels."""
