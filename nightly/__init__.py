"""Nights: many runs under a budget, resumable, each red one classified, shrunk and kept.

The top floor's ``kraftwreck nightly`` hands in the commands that make runs (:mod:`.tools`); what
is here decides which runs, in which order, and what became of them.
"""
