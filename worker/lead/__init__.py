"""What is no single worker's turn, done by the one that is steward, each duty under its term.

leader.py                         who it is, and when each duty has its turn
lost_runs.py give_ups.py stuck_fires.py undecided_fires.py stuck_requests.py chains.py
                                  what got stuck goes on, or gets its record
sweeping.py retention.py          what is needed no longer goes
statistics.py                     how many runs there were, and how long they took
roster.py                         which workers were here, and how they left
clock_keeping.py clock_book.py    how far clocks are from each other
"""
