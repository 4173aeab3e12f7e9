"""Is there one order that explains every answer: models, searches, and who verifies an order."""
