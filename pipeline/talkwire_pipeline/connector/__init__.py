"""The connector: one-way bounded edges between processes, in shared memory."""
