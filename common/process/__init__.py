"""A process of etcron, whichever program it is: how it lives, waits, logs and ends.

lifecycle.py cancellation.py beside.py
                                one task group, an orderly stop; waiting that ends; work that may block
event_loop.py threads.py heap.py
                                what it runs on
logs.py load.py failpoints.py   what it says of itself and of its machine; where a test has it die
"""
