"""A seeded discrete-event model of etcron's protocol, an independent checker of its histories, and mutants.

    seed --> World: events in order of time --> History --> checker --> violations
              |  Etcd        linearizable, leases, transactions; calls get lost, late, or lose their answers
              |  Worker      decides, dispatches, settles, re-adopts; pauses, crashes, a skewed clock
              |  Machine     processes, spool and guardian: what outlives its worker
              |  steward, managers, log store, faults

It is the protocol of ``docs/protocol.md`` as the code carries it out, not the code itself: small, so that a rule can be
taken away (:mod:`tests.chaos.model.rules`) to see that the checker notices. A seed always gives the same history.
Times are ms; seconds of waiting are scaled down (a TTL of 4 s, lost after 10 s), their proportions are kept.
"""
