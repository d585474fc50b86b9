"""Output layers over the encoder and the decoder, each a transformers model of its own."""
