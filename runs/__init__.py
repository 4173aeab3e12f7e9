"""One run: simulated in this process or another, judged from its folder, and replayed."""
