"""Online learning: linear models, k-means, networks, what trains and predicts with them, and their kernels."""
