"""A process of etcron, whichever program it is: how it lives, waits, logs and ends.

lifecycle.py threads.py         one task group, an orderly stop, waiting that ends; work that may block
disk.py secret_files.py         a directory's own thread, which does all work on it in order; secrets in files
runtime.py                      the event loop, the garbage collector, the machine's load
logs.py failpoints.py           what it says of itself; where a test has it die
"""
