"""Training runs: settings, the run loop, checkpoints and optimizers."""
