"""From a log to an answer: what it is, what a model makes of it, how sure that is."""
