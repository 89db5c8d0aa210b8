"""The servers that a person runs: found, recognised, asked in their own words. `dialects` is the table."""
