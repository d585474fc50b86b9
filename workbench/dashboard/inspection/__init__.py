"""The tabs of Inspect: one module each, with one function that draws it for one model."""
