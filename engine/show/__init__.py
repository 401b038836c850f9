"""The results of a run, as tables with named columns: results, rows of windows, epochs, failures."""
