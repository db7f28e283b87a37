"""What is nobody's turn, done by the one worker that is steward, each duty under its term.

steward.py rota.py                who it is, and when it looks; at some of very many in each turn
lost_runs.py give_ups.py stuck_fires.py undecided_fires.py stuck_requests.py chains.py
                                  what got stuck goes on, or gets its record
verdicts.py                     how a run that its worker has left is settled
sweeping.py dedupe_sweeping.py retention.py statistics.py
                                  what is needed no longer goes
roster_keeping.py                 which workers were here, and how they left
clock_keeping.py clock_book.py    how far clocks are from each other
"""
