"""Faults: families, schedules, triggers, and the injector that fires them."""
