"""One-way edges between two processes of one machine: a bounded ring in shared memory, woken through descriptors.

`tally` is the wake-up, `layout` the arithmetic, `ring` the memory, `codec` turns messages into bytes, and `edge`
joins them into a sender and a receiver of messages.
"""
