"""The protocol between managers, workers and etcd. Pure: no clock, no I/O.

A manager or worker reads, has a transaction built here, sends it, and has its answer read here. In doubt it sends the
same transaction again; refused, it reads again, and has another one built.

The life of a fire
    planner.py placement.py     what to do first about the undecided fires of a job; who may try one, in which order
    absence.py                  why no worker could
    proposals.py fire_claims.py one decision about a job; the transactions that claim fires, and what became of each
    request_writes.py           runs that were asked for: asked, claimed, ended
    boots.py                    a run for the boot of a machine, asked for by a worker there
    run_writes.py               what a worker writes for a run that it has claimed
    follow_ups.py chain.py      what follows the end of a run: a retry, a rerun, the next link of a chain
    records.py                  every record that is made

What others decide
    edits.py unblock_edit.py    a save, a pause, a deletion; a mark set back
    record_edits.py             one record in place of another; channels that rules name; drains
    account_edits.py            users, service accounts and bindings; that an administrator stays
    kill.py give_up.py dedupe.py
                                a run ended, given up; calls remembered
    logins.py                   sessions and tokens, made and ended
    fire_decisions.py           of fires, beside the claims: recorded, offered, passed over; a run that is replaced
    audit_heads.py audit_notes.py
                                how far each manager's audit chain goes; what `etcron admin` leaves for it
    tails.py                    of which run a user reads the live output
    sweeps.py                   what is of no use any more goes

What lies in etcd
    access_keys.py cursor_key.py
                                where users, bindings, tokens and sessions lie; the secret of cursors
    keys.py values.py           where everything lies; what a value has to be before anything is done with it
    saved_job.py planned_job.py a job as it is saved, and as it was before; as its fires are planned
    run.py request.py           a run, and the wish for one
    signatures.py               what managers sign, and workers believe
    member.py roster.py drain.py clocks.py
                                a worker; that it was here; that it takes nothing new; how far clocks are off
    permissions.py              what managers and workers need of etcd
    txn.py compares.py          transactions and their conditions, as values
"""
