"""A disk that is full after so many bytes, for this process alone."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(size):
    """Let no file grow beyond `size` bytes: writing more is an OSError, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
