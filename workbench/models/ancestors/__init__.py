"""The ancestors of the transformer, as Hugging Face-native models."""
