"""Choosing without labels: criteria, candidates, early dropping, a study that many processes share."""
