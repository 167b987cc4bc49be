"""Latency, memory and throughput, each beside a peer in the same run."""
