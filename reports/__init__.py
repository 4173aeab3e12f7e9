"""What people read: HTML reports, JUnit, the index of a store."""
