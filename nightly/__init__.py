"""Nights: many runs within a budget, resumable, with each red run classified, shrunk and kept.

``kraftwreck nightly`` in the top layer passes in the commands that make runs (:mod:`.tools`); this
package decides on the runs, their order, and their results.
"""
