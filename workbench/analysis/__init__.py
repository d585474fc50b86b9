"""From traces and scores to statistics with units, labels and standard errors."""
