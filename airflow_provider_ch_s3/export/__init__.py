"""The life of one export: rows of ClickHouse to files under a prefix that is complete or absent."""
