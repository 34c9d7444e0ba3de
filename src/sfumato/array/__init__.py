"""Arrays, rows in blocks, memory, types and checks: what every other folder builds on."""
