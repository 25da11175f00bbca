"""The errors of the ledger. Those of one function only are defined beside it."""

from modelpact.vocabulary.errors import ModelpactError


class LedgerError(ModelpactError):
    """The ledger refused an operation, or could not perform it."""


class LedgerUnavailable(LedgerError):
    """The store did not accept a write. Nothing of it was kept. Try again."""


class LedgerUncertain(LedgerUnavailable):
    """The commit was interrupted. Check whether the write was kept before you try again."""


class EnvelopeClosed(LedgerError):
    """The envelope is archived and takes no more events."""


class SettlementNotRecorded(LedgerError):
    """The end of an invocation could not be written yet. It is written as soon as possible.

    The caller must not rely on the answer before it is recorded.
    """


class NameTaken(LedgerError):
    """Another live process holds the lease of this name."""


class NewerSchema(LedgerError):
    """The store was written by a newer version of modelpact."""


class StatementRejected(LedgerError):
    """The statement or its values are wrong. The store itself works."""


class WriteConflict(LedgerError):
    """Another writer was first: a key exists, or a row has changed."""


class SerializationConflict(WriteConflict):
    """Two transactions got in each other's way, and the database aborted this one."""
