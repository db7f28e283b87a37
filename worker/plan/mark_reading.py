"""Reading the marks of many jobs: a run of neighbours by one request for a thousand, others by their names.

A catalog that is looked at as a whole comes in the order of its names, or nearly so: its marks are read as a range,
which costs etcd and this process far less than asking for each key. Where the range holds mostly marks that nobody
wants, the rest is asked for by name. A few neighbours tell which it is: etcd counts whatever a range holds, so that a
thousand marks here and there, which are the share of one worker of many, would cost it a walk over nearly all of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Final

from common.etcd import EtcdClient
from common.protocol.keys import Keys
from common.protocol.txn import MAX_READS, KeyValue

_PAGE: Final = 1000
_PROBE: Final = 8
"""So many are read first."""
_FEW: Final = MAX_READS
"""So many keys go into one request by name."""
_WORTH: Final = 0.25
"""Below this share of wanted keys, names are cheaper than ranges."""


async def read_marks(client: EtcdClient, keys: Keys, sequences: Collection[str]) -> dict[str, KeyValue]:
    """The marks of these sequences that exist, by sequence; EtcdError, UnavailableError.

    Each as it was at some moment since the call: they need not be of one revision.
    """
    key_of = {keys.mark(sequence): sequence for sequence in sequences}
    wanted, at, found = sorted(key_of), 0, dict[str, KeyValue]()
    many, limit = _PROBE, round(_PROBE / _WORTH)
    while len(wanted) - at > _FEW:
        # No further than the wanted keys of a page: etcd counts also what is beyond the limit.
        last = wanted[min(len(wanted), at + many) - 1]
        kvs, more = await client.get_between(wanted[at], last, limit=limit)
        own = {key_of[kv.key]: kv for kv in kvs if kv.key in key_of}
        found.update(own)
        at = bisect_right(wanted, kvs[-1].key if more else last)
        if len(own) < _WORTH * len(kvs):
            break
        many = limit = _PAGE
    by_name = await client.get_many(wanted[at:])
    return found | {key_of[key]: kv for key, kv in by_name.items()}
