"""Situations in which something is sent to etcd, each brought about by the code that does so in the product."""

from tests.golden.situations import accounts, changes, duties, logins, notices, planned_fires, runs, workers
from tests.golden.stage import SITUATIONS

__all__ = ["SITUATIONS", "accounts", "changes", "duties", "logins", "notices", "planned_fires", "runs", "workers"]
