"""Jobs as they are read: as ever, and as their schema says."""
