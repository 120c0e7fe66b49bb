"""Metrics that the dashboards and alerts use and that `metrics.py` may not have yet.

Once `metrics.py` has one, its declaration counts and the line here can go. docs/metrics-wanted.md shows them.
"""

from __future__ import annotations

from tools.dashboards.metric import Metric

WANTED = (
    Metric(
        "talkwire_continuity",
        "counter",
        "Utterances by whether (`ok`: `true`, `false`) no gap of their audio was longer than `threshold_ms`.",
        ("ok", "threshold_ms"),
    ),
    Metric("talkwire_queue_wait_seconds", "histogram", "From a segment that is ready to its slot of the talker."),
    Metric(
        "talkwire_capacity_utterances",
        "gauge",
        "Utterances that may be live at the same time (`server.max_live_utterances`).",
    ),
    Metric("talkwire_rpcs", "counter", "RPCs that ended, by method and status.", ("method", "code")),
    Metric("talkwire_rpc_seconds", "histogram", "How long RPCs took.", ("method",)),
    Metric("talkwire_stage_restarts", "counter", "New processes of a stage after its first.", ("stage",)),
    Metric("talkwire_stage_heartbeat_age_seconds", "gauge", "Since the stage's last answer to a ping.", ("stage",)),
    Metric("talkwire_stage_resident_memory_bytes", "gauge", "Resident memory of a stage's process.", ("stage",)),
    Metric(
        "talkwire_shared_memory_bytes", "gauge", "Size of all shared memory files that the server process has open."
    ),
    Metric("talkwire_talker_step_seconds", "summary", "Duration of a step of the talker."),
    Metric("talkwire_talker_batch_slots", "gauge", "Slots that the talker's last step served."),
    Metric("talkwire_talker_rows", "counter", "Code rows that the talker made."),
    Metric("talkwire_talker_preemptions", "counter", "Generations whose KV cache was taken away for others."),
    Metric("talkwire_talker_references", "gauge", "References that the talker holds."),
    Metric("talkwire_talker_free_reference_rows", "gauge", "Rows of references that the talker has room for."),
    Metric("talkwire_kv_cache_usage_ratio", "gauge", "Share of the KV cache in use, 0 to 1."),
    Metric("talkwire_prefix_cache_hits", "counter", "Prompt ids whose KV was there already."),
    Metric("talkwire_codec_decode_seconds", "summary", "Duration of a call of the decoder."),
    Metric("talkwire_codec_batch_windows", "gauge", "Windows that the decoder's last call took."),
    Metric("talkwire_edge_bytes", "counter", "Bytes that went over an edge, headers included.", ("edge",)),
    Metric("talkwire_edge_messages", "counter", "Messages that went over an edge.", ("edge",)),
    Metric("talkwire_edge_occupancy_ratio", "gauge", "Share of an edge's ring in use, 0 to 1.", ("edge",)),
    Metric("talkwire_edge_stall_seconds", "counter", "How long an edge was too full for a message.", ("edge",)),
    Metric("process_resident_memory_bytes", "gauge", "Resident memory of the server process."),
    Metric("process_cpu_seconds", "counter", "CPU time of the server process."),
    Metric("process_open_fds", "gauge", "Descriptors that the server process has open."),
    Metric("process_max_fds", "gauge", "Descriptors that the server process may have open."),
    Metric("process_start_time_seconds", "gauge", "When the server process started, seconds since 1970."),
)
"""They have the names, kinds and labels that the expressions count on."""
