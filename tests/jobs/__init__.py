"""Jobs as they are read, beside the reader that was there before."""
