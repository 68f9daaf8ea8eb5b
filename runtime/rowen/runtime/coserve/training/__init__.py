"""The machine that works tasks through on the weights of a served model: forward by windows, backward by hand."""
