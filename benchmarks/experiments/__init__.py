"""The papers' experiments, repeated: one folder for each paper."""
