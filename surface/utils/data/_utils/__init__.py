"""What the loader is made of: collating, fetching, and what runs in its workers."""

from plugrad.utils.data._utils import collate, fetch, worker

__all__ = ["collate", "fetch", "worker"]
