"""Co-serving: fine-tuning that is computed inside a serving engine (FlexLLM, LLMStation, Harli)."""
