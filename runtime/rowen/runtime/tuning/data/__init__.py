"""From a dataset's rows to tokens, and to the batches of each step in their order. It knows nothing of the trainer."""
