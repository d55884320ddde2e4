"""The life of an export: rows of ClickHouse to files under a prefix, complete or absent."""
