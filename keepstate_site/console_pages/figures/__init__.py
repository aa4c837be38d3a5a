"""What the dashboard tells, read from the database: each question is bounded by a time or a number of rows, and has an index."""
