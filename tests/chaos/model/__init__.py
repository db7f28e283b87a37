"""A seeded discrete-event model of etcron, and an independent checker of its histories.

    seed --> World: events in order of time --> History --> checker --> violations
              |  Etcd        linearizable, leases, transactions; calls get lost, late, or lose their answers
              |  Worker      decides, dispatches, settles, re-adopts; pauses, crashes, a skewed clock
              |  Machine     processes, spool and guardian: what outlives its worker
              |  steward, managers, log store, faults

Jobs, keys, values, decisions, ranks and every transaction are those of :mod:`common.protocol`, the code that the
product runs. The model's own are small: the flows, which read, send (again) and take in answers as the product's do;
sessions and the steward's election, whose compares stand in `common.etcd`; and what is not etcd: processes, guardian,
disks, the log store. The checker reads stored values with the protocol's readers, and judges by rules of its own.

A mutant (:mod:`tests.chaos.mutants`) takes one rule away. Most rules are the protocol's, and product and model run the
same patch. These stand in flows, and the model has patches of its own for them: the re-stamp before a start, doubts
that are settled, a session's own key, the guardian and its deadlines, acknowledged before deleted, absent once it was
read, and who sends what follows a run.

A seed always gives the same history. Times are ms. Jobs and arguments that say how long is waited are scaled down (a
TTL of 4 s, lost after 10 s), and keep their proportions.
"""
