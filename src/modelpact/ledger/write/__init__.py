"""Writing: transactions, the batches that share a commit, and where commits happen."""
