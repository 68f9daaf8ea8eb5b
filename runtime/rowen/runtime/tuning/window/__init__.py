"""Fine-tuning whose frozen weights are in memory only while they are needed: a window of layers."""
