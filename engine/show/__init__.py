"""What a run has left, as tables with named columns: results, rows of windows, epochs, failures."""
