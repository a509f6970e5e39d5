"""The convex problem, its solvers and its certificate. Knows nothing of recommending."""
