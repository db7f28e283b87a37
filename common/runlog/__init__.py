"""The log store: every run's record exactly once, pages by index only, whatever MongoDB does meanwhile.

MongoDB 6 to 8, or nx-27017 for trying etcron. Collections: ``log``, the legacy ``cron.log``, with the run id as
``_id``; ``last``, what each job came to; ``statistics``, what each day came to; ``audit``, who did what; ``outbox``,
``alerts``, ``notices`` and ``channel_states``, what is sent to people (see the modules). Nothing outside this package
knows pymongo.

**Writing.** A batch is one unordered insert, majority and journaled, which stops at the ``_id`` of a record that is
there already: so every write may be repeated, and a writer in doubt repeats it. Only a verdict ``lost`` gives way, to
the record that came late. What cannot be stored as it is comes back as a rejection; everything else is stored.

**Reading.** Every page is one range of one index, from where the cursor left off (``pages``). Nothing is
counted but by the steward, an hour's records at a time (``statistics``).

**Two servers, one way to ask them.** nx-27017 uses an index only for ``$eq`` spelled out, for ranges and for ``_id``;
it reads everything for ``$in`` on other fields; it cannot index ``_id`` together with something else; it takes text
that begins like a date for a date. MongoDB does not mind any of the ways around that are taken here.

store.py client.py              the run log as others use it; how the log store is asked
documents.py                    a record as it is kept
pages.py causes.py              which records a page asks for, by which index; what failures have in common
last.py statistics.py versions.py
                                what each job came to; what each day came to; what each job was
outbox.py alerts.py notices.py  what records tell, until notices are made of it; what alerts are open;
                                what is sent to people, and how far each channel is
tails.py                        what runs print while a user looks
audit.py                        who did what: entries that are only ever inserted
retention.py                    what is forgotten, and in which steps
"""

# ruff: noqa: E402 - the line that comes first must

import sys

# pymongo's asynchronous API uses the standard library's TLS, and yet looks for PyOpenSSL, for which it loads
# `cryptography`: 9 MB of memory in each process, and 20 ms of its start.
sys.modules.setdefault("pymongo.pyopenssl_context", None)  # type: ignore[arg-type]

from common.runlog.audit import AuditFilter, KeptEntry
from common.runlog.client import WriteResult
from common.runlog.documents import Rejection
from common.runlog.last import Advance, ByResult, FailingJob, JobResults, OwedResults
from common.runlog.outbox import OutboxDocument, outbox_documents
from common.runlog.pages import RunFilter, RunPage
from common.runlog.retention import KeptJob, OldRecord, RetentionState
from common.runlog.statistics import SpanCounts
from common.runlog.store import RunLog
from common.runlog.tails import Chunk, TailStore

__all__ = [
    "Advance",
    "AuditFilter",
    "ByResult",
    "Chunk",
    "FailingJob",
    "JobResults",
    "KeptEntry",
    "KeptJob",
    "OldRecord",
    "OutboxDocument",
    "OwedResults",
    "Rejection",
    "RetentionState",
    "RunFilter",
    "RunLog",
    "RunPage",
    "SpanCounts",
    "TailStore",
    "WriteResult",
    "outbox_documents",
]
